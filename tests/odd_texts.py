"""Unusual texts for tests of words and offsets."""

from hypothesis import strategies as st

# Emoji with joiners and modifiers, flags, combining accents, scripts without spaces, incomplete characters.
ODD = ["👩‍👩‍👧", "👍🏽", "🇫🇷", "e\u0301", "\u0301", "ñ", "ﬁ", "İ", "日本。", "नमस्ते", "\u200d", "\u00a0"]
ODD += ["\n", "[S]", ". ", "A. ", "? "]
texts = st.lists(st.sampled_from(ODD) | st.text(max_size=5), max_size=12).map("".join)
