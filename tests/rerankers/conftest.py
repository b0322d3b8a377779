"""Tiny models whose scores can be computed by hand or by a plain forward pass."""

import shutil
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from running_service import running_service

from tour_pyserini.rerankers import chat, remote
from tour_pyserini.support import http_client

TEXT = "who wrote hamlet is a tragedy by shakespeare the cat sat on mat Query: Document: Relevant: true false"
WORDS = TEXT.split()
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]


@pytest.fixture(autouse=True, scope="session")
def cache_folder(tmp_path_factory):
    """A temporary cache folder for exported graphs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def word_ids() -> dict[str, int]:
    """[PAD] 0, [UNK] 1, [CLS] 2, [SEP] 3, then the words."""
    return {word: number for number, word in enumerate(SPECIAL + WORDS)}


@pytest.fixture(scope="session")
def word_tokenizer(word_ids):
    """One token per word: [CLS] query [SEP] passage [SEP]."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    tokenizer = Tokenizer(models.WordLevel(word_ids, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


@pytest.fixture
def onnx_folder(tmp_path, word_tokenizer):
    """Makes a folder with a graph whose logit is the sum of the token ids that are not masked."""
    parser = pytest.importorskip("onnx.parser")

    def make(name="graph", *, outputs=1, inputs=("input_ids", "attention_mask"), graph_path="model.onnx") -> Path:
        folder = tmp_path / name
        (folder / graph_path).parent.mkdir(parents=True)
        weights = [1.0] if outputs == 1 else [-float(column) for column in range(outputs, 0, -1)]
        model = parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]>
            sum ({", ".join(f"int64[n, length] {name}" for name in inputs)}) => (float[n, {outputs}] logits)
            <int64[1] axis = {{1}}, float[{outputs}] weights = {{{", ".join(map(str, weights))}}}> {{
                masked = Mul (input_ids, {inputs[1]})
                total = ReduceSum <keepdims = 1> (masked, axis)
                sum = Cast <to = 1> (total)
                logits = Mul (sum, weights)
            }}""")
        (folder / graph_path).write_bytes(model.SerializeToString())
        word_tokenizer.save(str(folder / "tokenizer.json"))
        return folder

    return make


@pytest.fixture
def bert_folder(tmp_path):
    """Makes a folder with a random BERT cross-encoder."""
    pytest.importorskip("torch")
    from reranker_families import SIZES, classifier

    def make(name="bert", *, labels=1, seed=0) -> Path:
        classifier("bert", labels=labels, seed=seed, **SIZES)(tmp_path / name)
        return tmp_path / name

    return make


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """The folder of a family's model, which is saved once."""
    from reranker_families import FAMILIES

    @cache
    def save(family) -> Path:
        folder = tmp_path_factory.mktemp("family") / FAMILIES[family].name
        folder.mkdir()
        FAMILIES[family].save(folder)
        return folder

    return save


@pytest.fixture
def copied(saved, tmp_path):
    """A copy of a family's folder that a test may change."""
    return lambda family: Path(shutil.copytree(saved(family), tmp_path / saved(family).name))


@pytest.fixture(scope="module")
def service():
    """A re-ranking service on loopback."""
    with running_service() as running:
        yield running


@pytest.fixture
def http(monkeypatch, own_cache):
    """No keys, no proxy, and short waits."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in (remote.KEY_VARIABLE, chat.KEY_VARIABLE, chat.OPENAI_KEY_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(http_client, "FIRST_WAIT", 0.001)


@pytest.fixture
def pairs() -> list[tuple[str, str]]:
    """Forty pairs of many lengths, some of them empty or too long."""
    random = np.random.default_rng(7)
    return [
        (" ".join(random.choice(WORDS, size=random.integers(1, 6))), " ".join(random.choice(WORDS, size=length)))
        for length in [0, 1, 60, *random.integers(1, 40, size=37)]
    ]
