"""A judge that looks at pixels: classical vision behind an OpenAI-compatible endpoint.

It knows two cameras over one table (`cameras`), finds coloured things in their frames (`vision`),
measures what a task asks for (`scene`, `checks`), and reads and answers the requests that are made
to vision-language models (`prompt`, `reply`, `__main__`).
"""
