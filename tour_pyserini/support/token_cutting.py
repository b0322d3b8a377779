"""Cut tokenised texts to a maximum length, without a change to the tokenizer that made them.

A `tokenizers.Tokenizer` has one truncation, for all threads. One that is switched during a call gives another thread
rows of a wrong length. Here the tokenizer itself never cuts: others do, which never change.
"""

from typing import Any

from tour_pyserini.support.optional import import_optional


def token_cutter(tokenizer: Any, *, max_length: int, direction: str, strategy: str = "longest_first") -> Any:
    """A tokenizer whose `post_process` cuts an encoding, or two, and adds the special tokens of another tokenizer.

    It has no vocabulary, so that it is small.

    Args:
        tokenizer: the `tokenizers.Tokenizer` that made the encodings, without special tokens.
        max_length: tokens, including special tokens.
        direction: the side on which texts are cut, "right" or "left".
        strategy: which text of a pair is cut, as tokenizers call it.
    """
    tokenizers = import_optional("tokenizers")
    cutter = tokenizers.Tokenizer(tokenizers.models.WordLevel({}, unk_token=""))
    if tokenizer.post_processor is not None:
        cutter.post_processor = tokenizer.post_processor
    cutter.enable_truncation(max_length, strategy=strategy, direction=direction)
    return cutter
