"""The model of a phrase encoder: three transformers and a filter, as in DensePhrases (Lee et al., 2021)."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from tour_pyserini.errors import TourError, first_line
from tour_pyserini.support.model_files import read_config

if TYPE_CHECKING:
    from transformers import PretrainedConfig

Inputs = dict[str, Tensor]
SAFE, OLD = "model.safetensors", "pytorch_model.bin"
PARTS = ("phrase_encoder", "query_start_encoder", "query_end_encoder", "filter_linear")
# Names of the parts in earlier checkpoints of DensePhrases.
RENAMED = {"bert_start": "phrase_encoder", "bert_q_start": "query_start_encoder", "bert_q_end": "query_end_encoder"}


class PhraseModel(nn.Module):
    """One transformer computes a vector for each token of a passage; two compute the vector [start; end] of a question.

    A linear filter computes two logits for each token of a passage: whether an answer begins with it, and whether one
    ends with it. A checkpoint that has only query encoders has no phrase encoder and no filter.
    """

    def __init__(self, config: "PretrainedConfig", *, phrases: bool = True, filter_: bool = True) -> None:
        """Build the model of a configuration, with random weights; `phrases` and `filter_` leave out these parts."""
        from transformers import AutoModel

        super().__init__()
        self.config = config
        self.phrase_encoder = AutoModel.from_config(config) if phrases else None
        self.query_start_encoder = AutoModel.from_config(config)
        self.query_end_encoder = AutoModel.from_config(config)
        self.filter_linear = nn.Linear(config.hidden_size, 2) if filter_ else None

    def tokens(self, inputs: Inputs) -> tuple[Tensor, Tensor | None]:
        """Vectors [b, t, d] of the tokens of passages, and their filter logits [b, t, 2]; None without a filter."""
        assert self.phrase_encoder is not None
        hidden = self.phrase_encoder(**inputs).last_hidden_state
        return hidden, self.filter_linear(hidden) if self.filter_linear is not None else None

    def questions(self, inputs: Inputs, pooling: str) -> tuple[Tensor, Tensor]:
        """The start vectors [b, d] and end vectors [b, d] of questions."""
        mask = inputs["attention_mask"].unsqueeze(-1)
        encoders = (self.query_start_encoder, self.query_end_encoder)
        outputs = [encoder(**inputs).last_hidden_state for encoder in encoders]
        if pooling == "cls":
            return outputs[0][:, 0], outputs[1][:, 0]
        start, end = ((hidden * mask).sum(dim=1) / mask.sum(dim=1) for hidden in outputs)
        return start, end

    def save(self, folder: Path) -> None:
        """Write the configuration and the weights, with the names of DensePhrases."""
        from safetensors.torch import save_file

        self.config.save_pretrained(folder)
        state = {name: value.detach().cpu().contiguous().clone() for name, value in self.state_dict().items()}
        save_file(state, folder / SAFE, metadata={"format": "pt"})


def read_phrase_model(folder: Path) -> PhraseModel:
    """Read the model in a folder.

    Raises:
        TourError: if weights are missing (they would be random).
    """
    parts = _read_parts(folder)
    model = PhraseModel(read_config(folder), phrases="phrase_encoder" in parts, filter_="filter_linear" in parts)
    model = model.float()  # the configuration may ask for half precision
    for part, weights in parts.items():
        try:
            missing, _ = getattr(model, part).load_state_dict(weights, strict=False)
        except RuntimeError as error:
            raise TourError(f"the {part} in {folder} does not fit config.json; download the folder again.") from error
        # Poolers are not used, and some checkpoints lack them. Random poolers would change the fingerprint each time.
        for name in missing:
            if name.startswith("pooler."):
                getattr(model, part).get_parameter(name).data.zero_()
        if needed := [name for name in missing if not name.startswith("pooler.")]:
            raise TourError(
                f"the {part} in {folder} lacks {len(needed)} weights, such as {needed[0]}; download the folder again."
            )
    return model.eval()


def model_from_base(folder: Path) -> PhraseModel:
    """A model to train: three copies of the transformer in a folder, and a filter with random weights."""
    from transformers import AutoModel

    config = read_config(folder)
    model = PhraseModel(config)
    base = AutoModel.from_pretrained(str(folder), config=config, weights_only=True, trust_remote_code=False)
    for part in (model.phrase_encoder, model.query_start_encoder, model.query_end_encoder):
        assert part is not None
        part.load_state_dict(base.state_dict())
    return model.float()


def _read_parts(folder: Path) -> dict[str, dict[str, Any]]:
    """The weights of each part that the checkpoint has, by part and name.

    Other weights of the checkpoint, such as those of the teacher model, are ignored.

    Raises:
        TourError: if the file cannot be read, or has no query encoders.
    """
    parts: dict[str, dict[str, Any]] = {}
    for name, value in _read_weights(folder).items():
        head, _, rest = name.removeprefix("module.").partition(".")
        part = RENAMED.get(head, head)
        if part in PARTS:
            parts.setdefault(part, {})[rest] = value
    if "query_start_encoder" not in parts or "query_end_encoder" not in parts:
        raise TourError(
            f"{folder} is not a phrase encoder: its checkpoint has no query_start_encoder and query_end_encoder; "
            "train one with python -m tour_pyserini.train phrase-encoder."
        )
    return parts


def _read_weights(folder: Path) -> dict[str, Any]:
    try:
        if (folder / SAFE).is_file():
            from safetensors.torch import load_file

            return load_file(folder / SAFE)
        import torch

        return torch.load(folder / OLD, map_location="cpu", weights_only=True)
    except Exception as error:
        raise TourError(
            f"the weights in {folder} cannot be read ({first_line(error)}); download them again."
        ) from error
