"""What a judge's calls cost. A price that is not known is None, never zero.

Prices are those that the judge's settings state, else, at the vendor's own address, those of the
package genai-prices, whose table comes with it: nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final
from urllib.parse import urlsplit

from grader_service.providers.base import VENDOR_URLS, Answer, Kind, ProviderConfig

# The vendors as genai-prices calls them.
_VENDORS: Final[Mapping[Kind, str]] = {
    "openai": "openai",
    "openai-responses": "openai",
    "anthropic": "anthropic",
}
# No call takes so many; an endpoint that says so says nothing that could be priced.
_MOST_TOKENS: Final = 10**8
_MILLION: Final = 10**6
_NANO: Final = Decimal("1e-9")


@dataclass(frozen=True, slots=True)
class TokenPrice:
    """A price that the settings state, in US dollars for a million tokens."""

    input_mtok: Decimal
    output_mtok: Decimal


@dataclass(frozen=True, slots=True)
class Cost:
    """An amount, whose prices they are, and the model as they call it."""

    usd: Decimal
    source: str
    model: str

    def to_dict(self) -> dict[str, str]:
        """Return the cost as a receipt has it."""
        return {"usd": plain_usd(self.usd), "source": self.source, "model": self.model}


def plain_usd(usd: Decimal) -> str:
    """Return an amount to the nano-dollar as a decimal number without exponent, "0.0003826"."""
    rounded = usd.quantize(_NANO, rounding=ROUND_HALF_UP)
    return f"{rounded.normalize():f}"


@dataclass(frozen=True, slots=True)
class PriceList:
    """The prices of one judge."""

    provider: ProviderConfig
    stated: TokenPrice | None = None
    stub: bool = False

    def of_answers(self, answers: Iterable[Answer]) -> Cost | None:
        """Return what calls cost together; None without any, and where one has no known price.

        Each is priced by itself, since prices have steps by the size of a request, and by the
        model that answered, since an alias may lead to any.
        """
        total: Cost | None = None
        for answer in answers:
            tier = answer.body.get("service_tier") if isinstance(answer.body, dict) else None
            cost = self.of_call(answer.usage, model=answer.model, tier=tier)
            if cost is None:
                return None
            usd = cost.usd if total is None else total.usd + cost.usd
            total = Cost(usd, cost.source, cost.model)
        return total

    def of_call(
        self, usage: Mapping[str, int] | None, *, model: str | None = None, tier: Any = None
    ) -> Cost | None:
        """Return what a call of that usage (as in `Answer`) costs, or None.

        `model` is the one that answered, if it is not the one asked; `tier` the service tier that
        the vendor names. Reasoning tokens are among the output tokens, which they are billed as.
        """
        if self.stub or usage is None or not _is_whole(usage):
            return None
        asked = self.provider.model
        if self.stated is not None:
            usd = usage["input_tokens"] * self.stated.input_mtok
            usd += usage["output_tokens"] * self.stated.output_mtok
            return Cost(usd / _MILLION, "settings", asked)
        if not self._at_vendor:
            return None
        return _listed(_VENDORS[self.provider.kind], model or asked, usage, tier)

    def why_unknown(self) -> str:
        """Return why calls to the model that is asked have no price."""
        if self.stub:
            return "a stub judge has no price"
        if not self._at_vendor:
            return f"{self.provider.url} is not the vendor's own, and no price is set for it"
        return f"{_source()} has no price for the model {self.provider.model!r}"

    @property
    def _at_vendor(self) -> bool:
        # By the whole host: regional addresses of a vendor have other prices.
        vendor = urlsplit(VENDOR_URLS[self.provider.kind])
        return urlsplit(self.provider.url).hostname == vendor.hostname


def _is_whole(usage: Mapping[str, int]) -> bool:
    """Whether both sides of a call are counted, and believably."""
    return (
        "input_tokens" in usage
        and "output_tokens" in usage
        and all(count <= _MOST_TOKENS for count in usage.values())
    )


def _listed(vendor: str, model: str, usage: Mapping[str, int], tier: Any) -> Cost | None:
    """Return the cost by genai-prices' table; None if the model or its price is not in it."""
    try:
        # Half a second and 13 MB, for those only who ask a vendor.
        from genai_prices import Usage, calc_price

        found = calc_price(
            Usage(
                input_tokens=usage["input_tokens"],
                cache_read_tokens=usage.get("cached_tokens", 0),
                cache_write_tokens=usage.get("cache_write_tokens", 0),
                output_tokens=usage["output_tokens"],
            ),
            model,
            provider_id=vendor,
            price_context={"service_tier": tier} if isinstance(tier, str) else None,
        )
    except (ImportError, LookupError, ValueError):
        # Not installed, an unknown model, counts that contradict each other.
        return None
    if found.model_price.input_mtok is None or found.model_price.output_mtok is None:
        # A model that is not sold by the token: its total would be zero.
        return None
    return Cost(found.total_price, _source(), found.model.id)


def _source() -> str:
    try:
        from genai_prices import __version__
    except ImportError:
        return "genai-prices, which is not installed,"
    return f"genai-prices {__version__}"
