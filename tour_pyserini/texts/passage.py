"""What a model reads of a document."""

from typing import Self


class Passage(str):
    """The title, a space and the text; one of them alone where the other is empty.

    It is a string like any other, and still knows where the title ends, for models that read the two apart.

    Example:
        >>> passage = Passage("Nobel Prize", "It was first awarded in 1901.")
        >>> passage
        'Nobel Prize It was first awarded in 1901.'
        >>> passage.parts
        ('Nobel Prize', 'It was first awarded in 1901.')
    """

    __slots__ = ("_end",)
    _end: int

    def __new__(cls, title: str, text: str, between: str = " ") -> Self:
        """Put them together, with one character `between` them."""
        self = super().__new__(cls, f"{title}{between}{text}" if title and text else title or text)
        self._end = len(title)
        return self

    @property
    def parts(self) -> tuple[str, str]:
        """Title and text; either may be empty."""
        return self[: self._end], self[self._end + bool(self._end) :]

    def __getnewargs__(self) -> tuple[str, str, str]:  # type: ignore[override]
        """What a copy is made from, in this process or in another one."""
        return *self.parts, self[self._end : self._end + 1]


def passage(title: str, text: str) -> Passage:
    """The passage of a document.

    Example:
        >>> passage("Nobel Prize", "It was first awarded in 1901.")
        'Nobel Prize It was first awarded in 1901.'
    """
    return Passage(title, text)
