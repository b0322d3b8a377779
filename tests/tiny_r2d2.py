"""A small random R2-D2 re-ranker in a folder, and its scores computed by hand."""

import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers.pre_tokenizers import ByteLevel
from transformers import RobertaConfig, RobertaModel

# RoBERTa's vocabulary without its merges: one token per byte.
WORDS = ["<s>", "<pad>", "</s>", "<unk>", *sorted(ByteLevel.alphabet()), "madeupword0000", "madeupword0001", "<mask>"]
IDS = {word: number for number, word in enumerate(WORDS)}
TEXT, TITLE = IDS["madeupword0000"], IDS["madeupword0001"]


class TinyR2D2:
    """A RoBERTa encoder with random weights and a linear head, written in the format of R2-D2."""

    def __init__(self, folder: Path, *, seed: int = 0, positions: int = 300) -> None:
        torch.manual_seed(seed)
        self.folder = folder
        sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
        more = {"max_position_embeddings": positions + 2, "type_vocab_size": 1, "initializer_range": 0.3}
        self.config = RobertaConfig(vocab_size=len(WORDS), **sizes, **more)
        self.encoder = RobertaModel(self.config).eval()
        self.head = torch.nn.Linear(16, 1, bias=False)
        self.config.save_pretrained(folder)
        (folder / "vocab.json").write_text(json.dumps(IDS))
        (folder / "merges.txt").write_text("#version: 0.2\n")
        settings = {"tokenizer_class": "RobertaTokenizer", "model_max_length": 512}
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        named = {f"encoder.{name}": value.detach() for name, value in self.encoder.state_dict().items()}
        return named | {"vt.weight": self.head.weight.detach()}

    def save(self) -> Path:
        save_file(self.weights, self.folder / "model.safetensors")
        return self.folder

    def input_ids(self, question: str, title: str, text: str, longest: int = 256) -> list[int]:
        """<s> question </s> </s> mark title mark text </s>."""
        ids = [0, *byte_ids(question), 2, 2, TITLE, *byte_ids(title), TEXT, *byte_ids(text), 2]
        return ids if len(ids) <= longest else [*ids[: longest - 1], 2]

    def score(self, ids: list[int]) -> float:
        with torch.no_grad():
            return self.head(self.encoder(torch.tensor([ids])).pooler_output).item()

    def scores(self, triples, longest: int = 256) -> np.ndarray:
        return np.array([self.score(self.input_ids(*triple, longest)) for triple in triples])


def byte_ids(text: str) -> list[int]:
    """One id per byte; the token of a space is Ġ, the token of any other printable byte is its character."""
    return [IDS["Ġ" if byte == 32 else chr(byte)] for byte in text.encode()]
