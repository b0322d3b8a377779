"""What a model reads of a document."""


def passage(title: str, text: str) -> str:
    """The title, a space and the text; one of them alone where the other is empty.

    Example:
        >>> passage("Nobel Prize", "It was first awarded in 1901.")
        'Nobel Prize It was first awarded in 1901.'
    """
    return f"{title} {text}" if title and text else title or text
