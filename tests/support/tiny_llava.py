"""Write a tiny LLaVA with random weights to a folder: answers are noise, its server is not ours.

    python tests/support/tiny_llava.py FOLDER

Runs where torch and transformers are installed (`make test-transformers`).
"""

from __future__ import annotations

import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    CLIPImageProcessor,
    CLIPVisionConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    PreTrainedTokenizerFast,
)

SPECIAL = ["<pad>", "<s>", "</s>", "<image>"]
PICTURE, PATCH = 28, 14
TEMPLATE = """\
{% for message in messages %}{{ message['role'] }}: \
{% if message['content'] is string %}{{ message['content'] }}\
{% else %}{% for part in message['content'] %}\
{% if part['type'] == 'image' %}<image>\
{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}\
{% endfor %}{% endif %}
{% endfor %}assistant: """


def main(folder: str) -> None:
    # A token for each byte: no text is needed to train on.
    vocabulary = {
        token: number
        for number, token in enumerate([*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())])
    }
    bytes_only = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    bytes_only.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_only.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bytes_only,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        additional_special_tokens=["<image>"],
    )
    pictures = CLIPImageProcessor(
        size={"shortest_edge": PICTURE}, crop_size={"height": PICTURE, "width": PICTURE}
    )
    LlavaProcessor(
        image_processor=pictures,
        tokenizer=tokenizer,
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        image_token="<image>",
        chat_template=TEMPLATE,
    ).save_pretrained(folder)
    size = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }
    text = LlamaConfig(
        vocab_size=len(vocabulary),
        max_position_embeddings=32_768,
        pad_token_id=vocabulary["<pad>"],
        bos_token_id=vocabulary["<s>"],
        eos_token_id=vocabulary["</s>"],
        **size,
    )
    vision = CLIPVisionConfig(image_size=PICTURE, patch_size=PATCH, **size)
    torch.manual_seed(0)
    LlavaForConditionalGeneration(
        LlavaConfig(vision_config=vision, text_config=text, image_token_index=vocabulary["<image>"])
    ).save_pretrained(folder)


if __name__ == "__main__":
    main(sys.argv[1])
