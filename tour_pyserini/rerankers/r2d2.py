"""Load the passage re-ranker of R2-D2 (Fajcik et al., 2021), which the TouR paper uses."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tour_pyserini.data.texts import Passage
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.rerankers.local_reranker import Checkpoint, Kind, LocalReranker, Options, cut_pair
from tour_pyserini.rerankers.reranker import Pair
from tour_pyserini.support.model_files import Row, is_checkpoint
from tour_pyserini.support.packages import import_optional

ENCODER, HEAD = "encoder.", "vt.weight"
"""Names of weights: the prefix of the encoder's weights, and the row [1, hidden] that scores its pooled output."""
TITLE, TEXT = "madeupword0001", "madeupword0000"
"""Words of RoBERTa's vocabulary that no text contains: they mark where title and text begin."""
TEMPLATE = f"<s> question </s> </s> {TITLE} title {TEXT} text </s>, cut at the end"
MAX_LENGTH = 256
"""Maximum length in tokens: the published re-ranker was trained with it."""


def _is_r2d2(folder: Path) -> bool:
    """Whether the folder holds R2-D2's weights, published or as safetensors, and a configuration."""
    weights = [HEAD in _weight_names(path) for path in folder.glob("*.safetensors")]
    return (folder / "config.json").is_file() and (bool(_published_files(folder)) or any(weights))


def _load_r2d2(folder: Path, options: Options, *, name: str) -> "_R2D2Reranker":
    """Load RoBERTa with a linear score of its pooled output, in a folder with RoBERTa's configuration and tokenizer."""
    from tour_pyserini.rerankers.torch_runner import TorchRunner

    checkpoint = Checkpoint(folder, options, longest=MAX_LENGTH)
    checkpoint.dtype = "float32"
    weights = _read_weights(folder)
    head = weights.pop(HEAD).float().to(options.device)
    encoder = import_optional("transformers").AutoModel.from_config(checkpoint.config).float().eval()
    try:
        # Old checkpoints also hold the positions 0, 1, 2, ..., which are not weights.
        named = {key.removeprefix(ENCODER): value for key, value in weights.items() if not key.endswith("position_ids")}
        encoder.load_state_dict(named)
        head = head.reshape(checkpoint.config.hidden_size)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:200]
        raise TourError(f"the weights in {folder} do not fit its config.json ({reason}).") from error
    encoder.to(options.device)
    tokenizer, files = checkpoint.tokenizer, [*checkpoint.files, *_published_files(folder)]
    fill = {"input_ids": tokenizer.pad_token_id or 0}
    return _R2D2Reranker(
        name,
        checkpoint.identify("r2d2", files, template=TEMPLATE),
        _R2D2Tokens(tokenizer, max_length=checkpoint.length, name=name),
        TorchRunner(encoder, options, lambda inputs: encoder(**inputs).pooler_output @ head, fill=fill),
        options,
    )


class _R2D2Reranker(LocalReranker):
    """A re-ranker that reads question, title and text as separate parts.

    A passage without a known title is read with an empty title.
    """

    @staticmethod
    def reads(passage: str) -> str:
        """The text that the model reads of a passage: title and text, each after its mark."""
        title, text = passage.parts if isinstance(passage, Passage) else ("", passage)
        return f"{TITLE}{title}{TEXT}{text}"


class _R2D2Tokens:
    """Tokenises pairs of a question and what `_R2D2Reranker.reads` of a passage.

    An input that is too long is cut at the end of the text; a question that leaves no room for the passage is cut to
    half of the room.
    """

    def __init__(self, tokenizer: Any, *, max_length: int, name: str) -> None:
        self._tokenizer = tokenizer
        self._marks = _marks(tokenizer, name)
        self._length = max_length

    def rows(self, pairs: Sequence[Pair]) -> Sequence[Row]:
        """Tokenise pairs, each cut to the maximum length."""
        parts = [passage.removeprefix(TITLE).partition(TEXT) for _, passage in pairs]
        questions = self._ids([query for query, _ in pairs])
        titles = self._ids([title for title, _, _ in parts])
        texts = self._ids([text for _, _, text in parts])
        return [self._row(*ids) for ids in zip(questions, titles, texts, strict=True)]

    def _row(self, question: list[int], title: list[int], text: list[int]) -> Row:
        start, separator, end, title_mark, text_mark = self._marks
        passage = [title_mark, *title, text_mark, *text]
        question, passage = cut_pair(question, passage, self._length - 4)
        ids = [start, *question, separator, separator, *passage, end]
        return {"input_ids": ids, "attention_mask": [1] * len(ids)}

    def _ids(self, texts: list[str]) -> list[list[int]]:
        return self._tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]


def _marks(tokenizer: Any, name: str) -> list[int]:
    """The ids of the start, the separator, the end, and the marks of title and text."""
    tokens = [tokenizer.bos_token, tokenizer.sep_token, tokenizer.eos_token, TITLE, TEXT]
    ids = tokenizer.convert_tokens_to_ids(tokens)
    if None in ids or tokenizer.unk_token_id in ids:
        raise TourError(f"the tokenizer of {name} lacks {TITLE}, a mark of R2-D2's input; use that of roberta-base.")
    return ids


def _published_files(folder: Path) -> list[Path]:
    """The files `*.ckpt`; none if there are weights with the usual names too (`*.ckpt` then come from training)."""
    return [] if is_checkpoint(folder) else sorted(folder.glob("*.ckpt"))


def _read_weights(folder: Path) -> dict[str, Any]:
    """Read the tensors by name, including the head."""
    try:
        (path,) = _published_files(folder) or folder.glob("*.safetensors")
        read = import_optional("safetensors.torch").load_file if path.suffix == ".safetensors" else _read_published
        weights = read(path)
    except Exception as error:  # a damaged file can raise anything
        raise TourError(f"{folder} does not hold one file of R2-D2's weights ({first_line(error):.200}).") from error
    if HEAD not in weights:
        raise TourError(f"{folder} is not an R2-D2 re-ranker: its checkpoint lacks {HEAD}; choose another model.")
    return weights


def _read_published(path: Path) -> dict[str, Any]:
    """Read the tensors of a published checkpoint, a pickle that also holds objects of the training program.

    Every class that the pickle names is replaced by a class that does nothing, so that no code from the file runs.
    """
    torch = import_optional("torch")
    class_names = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    with torch.serialization.safe_globals([(_Ignored, name) for name in class_names]):
        content = torch.load(path, map_location="cpu", weights_only=True)
    weights = content.get("model", content)
    return {name: value for name, value in weights.items() if isinstance(value, torch.Tensor)}


class _Ignored:
    """Replaces any class of a pickle: accepts its arguments and state, and stores nothing."""

    def __new__(cls, *_: object) -> "_Ignored":
        return super().__new__(cls)

    def __setstate__(self, state: object) -> None:
        pass


def _weight_names(path: Path) -> set[str]:
    try:
        with import_optional("safetensors").safe_open(path, framework="np") as file:
            return set(file.keys())
    except Exception:  # a damaged file: loading it gives the error message
        return set()


R2D2 = Kind(_is_r2d2, _load_r2d2, DTYPES=("auto", "float32"))
