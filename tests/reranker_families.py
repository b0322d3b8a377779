"""The families of re-rankers as small random models, each with its scores by transformers or sentence-transformers.

A family is built by a function that saves a model, and checked by one that scores pairs in the authors' way: one pair
at a time, without padding, with code that shares nothing with the package.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

SPECIAL = ["<pad>", "<s>", "</s>", "<unk>", "<|im_start|>", "<|im_end|>"]
PAD, BOS, EOS = 0, 1, 2
LENGTH = 220
"""Tokens of an input in the tests: more than the longest prompt, fewer than the longest pair."""

PAIRS = [
    ("who wrote hamlet", "Hamlet is a tragedy by William Shakespeare."),
    ("who wrote hamlet?", "The cat sat on the mat.\nSo it did."),
    ("far?", "No."),
    ("Größe und Ähnliches", "naïve café – 東京"),
    ("what is the {passage} of {query}", "braces { } and <|im_end|> are words of the text"),
    ("sea", "the sea" + " and the sea" * 200),
    ("of the" + " of the" * 4, "yes no" + " Yes No 0 1" * 80),
]
"""Pairs of many lengths; the last two are longer than `LENGTH`."""

JUDGE = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
)
INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"
THINK = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
EXPERT = (
    "You are a search relevance expert who evaluates how well documents match search queries. For each query-document "
    "pair, carefully analyze the semantic relationship between them, then provide your binary relevance judgment "
    "(0 for not relevant, 1 for relevant).\nRelevance:"
)
ASSISTANT = (
    "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n"
    "<|im_start|>user\n"
)
DETERMINE = (
    "Given a query A and a passage B, determine whether the passage contains an answer to the query by providing a "
    "prediction of either 'Yes' or 'No'."
)
TEMPLATE = (
    "<|im_start|>system\nJudge.<|im_end|>\n<|im_start|>user\n<Instruct>: "
    '{{ messages | selectattr("role", "eq", "system") | map(attribute="content") | first | default("find") }}\n'
    '<Query>: {{ messages | selectattr("role", "eq", "query") | map(attribute="content") | first }}\n'
    '<Document>: {{ messages | selectattr("role", "eq", "document") | map(attribute="content") | first }}'
    "<|im_end|>\n<|im_start|>assistant\n"
)
CHAT_ONLY = (
    "{% for m in messages %}{% if m.role == 'user' %}<|im_start|>user\n{{ m.content }}<|im_end|>\n{% endif %}"
    "{% endfor %}"
)


@dataclass(frozen=True)
class Family:
    """One row of the table of families."""

    save: Callable[[Path], None]  # writes a model to a folder
    scores: Callable[[Path, int], np.ndarray]  # of PAIRS by the reference, from the folder and the maximum length
    engine: str | None = None  # what runs it; None if that depends on the machine
    name: str = "model"  # that the folder needs, if its name says what it is
    other_backend: str = "torch"  # another back end that can run it, or the only one


@lru_cache
def byte_tokenizer() -> str:
    """A small byte-level vocabulary that knows the words of the prompts and the answers as single tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    texts = [JUDGE, INSTRUCTION, THINK, EXPERT, ASSISTANT, DETERMINE, "yes", "no", "Yes", "No"] * 20
    options = {"initial_alphabet": sorted(pre_tokenizers.ByteLevel.alphabet()), "show_progress": False}
    special = [AddedToken(token, special=True, normalized=False) for token in SPECIAL]
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=700, special_tokens=special, **options))
    return tokenizer.to_str()


def tokenizer(*, layout: str, **settings) -> transformers.PreTrainedTokenizerFast:
    """A tokenizer of transformers: `bert` layout <s> a </s> b </s>, `bos` layout <s> a <s> b, or `plain`."""
    backend = Tokenizer.from_str(byte_tokenizer())
    if layout == "bert":
        backend.post_processor = processors.BertProcessing(("</s>", EOS), ("<s>", BOS))
        settings = {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"], **settings}
    elif layout == "bos":
        backend.post_processor = processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", BOS)]
        )
    elif layout == "t5":
        backend.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", EOS)])
    settings = {"pad_token": "<pad>", "unk_token": "<unk>", "model_max_length": 2048, **settings}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>", **settings)


SIZES = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 32}
SIZES |= {"max_position_embeddings": 600, "initializer_range": 0.4}
DECODER = SIZES | {"num_key_value_heads": 1, "head_dim": 8}


def save_model(folder: Path, kind: str, head: str, *, layout: str, token_settings=None, seed=0, **config) -> None:
    """Write a random model and its tokenizer."""
    tokens = tokenizer(layout=layout, **(token_settings or {}))
    torch.manual_seed(seed)
    made = transformers.AutoConfig.for_model(kind, **{"vocab_size": len(tokens), **config})
    getattr(transformers, f"AutoModelFor{head}").from_config(made).eval().save_pretrained(folder)
    tokens.save_pretrained(folder)


def classifier(kind: str, *, layout: str = "bert", labels: int = 1, pad: int | None = PAD, **config):
    """A builder of sequence classifiers."""
    settings = {"bos_token_id": BOS, "eos_token_id": EOS, "num_labels": labels, "pad_token_id": pad, **config}
    return lambda folder: save_model(folder, kind, "SequenceClassification", layout=layout, **settings)


def read(folder: Path, head: str):
    """The model and the tokenizer of a folder, by transformers."""
    model = getattr(transformers, f"AutoModelFor{head}").from_pretrained(folder, dtype=torch.float32).eval()
    return model, transformers.AutoTokenizer.from_pretrained(folder)


def classifier_scores(folder: Path, length: int) -> np.ndarray:
    """Logits of the two texts as a pair, the passage cut; with two logits, their difference."""
    model, tokens = read(folder, "SequenceClassification")
    length, taken = min(length, tokens.model_max_length), inspect.signature(model.forward).parameters
    scores = []
    with torch.no_grad():
        for query, passage in PAIRS:
            coded = tokens(query, passage, truncation="only_second", max_length=length, return_tensors="pt")
            logits = model(**{name: ids for name, ids in coded.items() if name in taken}).logits[0].double().numpy()
            scores.append(logits[0] if len(logits) == 1 else logits[1] - logits[0])
    return np.array(scores)


def ids_of(tokens, text: str) -> list[int]:
    return tokens(text, add_special_tokens=False)["input_ids"]


def qwen3_input(tokens, query: str, passage: str, length: int) -> list[int]:
    """As the model card of Qwen3-Reranker does it: prefix, cut pair, suffix."""
    before, after = ids_of(tokens, JUDGE), ids_of(tokens, THINK)
    pair = ids_of(tokens, f"<Instruct>: {INSTRUCTION}\n<Query>: {query}\n<Document>: {passage}")
    return before + pair[: length - len(before) - len(after)] + after


def mxbai_input(tokens, query: str, passage: str, length: int) -> list[int]:
    """As the package mxbai-rerank does it: each part is tokenised on its own."""
    before, newline = ids_of(tokens, ASSISTANT), ids_of(tokens, "\n")
    after = newline + ids_of(tokens, EXPERT) + ids_of(tokens, "<|im_end|>\n<|im_start|>assistant\n")
    pair = ids_of(tokens, f"query: {query}") + newline + ids_of(tokens, f"document: {passage}")
    return before + pair[: length - len(before) - len(after)] + after


def gemma_input(tokens, query: str, passage: str, length: int) -> list[int]:
    """As FlagEmbedding does it: the first token, query, passage, and the prompt at the end."""
    newline = ids_of(tokens, "\n")
    after = newline + ids_of(tokens, DETERMINE)
    pair = [tokens.bos_token_id, *ids_of(tokens, f"A: {query}"), *newline, *ids_of(tokens, f"B: {passage}")]
    return pair[: length - len(after)] + after


def answer_scores(make_input, yes: str, no: str | None):
    """The logit of an answer, minus that of the other one, after the last token of each input."""

    def scores(folder: Path, length: int) -> np.ndarray:
        model, tokens = read(folder, "CausalLM")
        found = []
        with torch.no_grad():
            for query, passage in PAIRS:
                ids = torch.tensor([make_input(tokens, query, passage, length)])
                logits = model(input_ids=ids).logits[0, -1].double()
                found.append(logits[ids_of(tokens, yes)[0]] - (logits[ids_of(tokens, no)[0]] if no else 0.0))
        return np.array([float(score) for score in found])

    return scores


def prompted_classifier_scores(folder: Path, length: int) -> np.ndarray:
    """Qwen3-Reranker as a classifier, with the prompt of its model card."""
    model, tokens = read(folder, "SequenceClassification")
    inputs = [torch.tensor([qwen3_input(tokens, *pair, length)]) for pair in PAIRS]
    with torch.no_grad():
        return np.array([model(input_ids=ids).logits[0, 0].item() for ids in inputs])


def library_scores(folder: Path, length: int) -> np.ndarray:
    """Raw scores of CrossEncoder itself, one pair at a time."""
    from sentence_transformers import CrossEncoder

    model = CrossEncoder(str(folder), device="cpu", max_length=length)
    scores = [model.predict([list(pair)], activation_fn=torch.nn.Identity())[0] for pair in PAIRS]
    return np.array([float(np.ravel(score)[0]) for score in scores])


def save_prompted_classifier(folder: Path) -> None:
    """A BERT that sentence-transformers saved with a default prompt."""
    from sentence_transformers import CrossEncoder

    classifier("bert", **SIZES)(folder / "plain")
    prompts = {"none": "", "web": "search for: "}
    model = CrossEncoder(str(folder / "plain"), device="cpu", prompts=prompts, default_prompt_name="web")
    model.save_pretrained(str(folder))


def save_template_classifier(folder: Path) -> None:
    """Qwen3-Reranker as a classifier, with a chat template for pairs in the tokenizer."""
    settings = {"token_settings": {"chat_template": TEMPLATE, "padding_side": "left"}, "num_labels": 1}
    save_model(folder, "qwen3", "SequenceClassification", layout="plain", **settings, **DECODER)


def save_answers(kind: str, *, layout: str = "plain", **settings):
    """A builder of language models without any file that says what they read."""

    def save(folder: Path) -> None:
        save_model(folder, kind, "CausalLM", layout=layout, token_settings=settings, **DECODER)

    return save


def save_logit_score(folder: Path) -> None:
    """A language model with LogitScore, a chat template and a default prompt, by sentence-transformers."""
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.cross_encoder.modules import LogitScore

    save_answers("qwen3", chat_template=TEMPLATE)(folder / "plain")
    body = Transformer(str(folder / "plain"), transformer_task="text-generation")
    head = LogitScore(ids_of(body.tokenizer, "yes")[0], ids_of(body.tokenizer, "no")[0])
    model = CrossEncoder(modules=[body, head], device="cpu", prompts={"web": INSTRUCTION}, default_prompt_name="web")
    model.save_pretrained(str(folder))


def save_dense(folder: Path) -> None:
    """Pooled vectors with a linear score, by sentence-transformers."""
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Dense, Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    save_model(folder / "plain", "bert", "MaskedLM", layout="bert", **SIZES)
    torch.manual_seed(1)
    score = Dense(16, 1, activation_function=torch.nn.Identity(), module_output_name="scores")
    body = Transformer(str(folder / "plain"), transformer_task="feature-extraction")
    CrossEncoder(modules=[body, Pooling(16, pooling_mode="mean"), score], device="cpu").save_pretrained(str(folder))


def save_t5(folder: Path, answers=("▁true", "▁false")) -> None:
    """A monoT5-like model; its answers are spelled as in T5's vocabulary."""
    tokens = tokenizer(layout="t5")
    tokens.add_tokens(list(answers))
    torch.manual_seed(0)
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2, "initializer_factor": 3.0}
    config = transformers.T5Config(vocab_size=len(tokens), decoder_start_token_id=PAD, **sizes)
    transformers.T5ForConditionalGeneration(config).save_pretrained(folder)
    tokens.save_pretrained(folder)


def t5_scores(folder: Path, length: int, pairs=PAIRS) -> np.ndarray:
    """`true` minus `false` after "Query: q Document: d Relevant:", a long query cut to half of the room."""
    model, tokens = read(folder, "Seq2SeqLM")
    true, false = tokens.convert_tokens_to_ids(["▁true", "▁false"])
    scores = []
    for query, passage in pairs:
        ids = [*ids_of(tokens, f"Query: {query} Document: {passage} Relevant:"), EOS]
        if len(ids) > length:
            after = [*ids_of(tokens, "Relevant:"), EOS]
            head, tail = ids_of(tokens, f"Query: {query}"), ids_of(tokens, f"Document: {passage}")
            room = length - len(after)
            head = head if len(head) < room else head[: room // 2]
            ids = [*head, *tail[: room - len(head)], *after]
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([ids]), decoder_input_ids=torch.tensor([[PAD]])).logits[0, 0]
        scores.append((logits[true] - logits[false]).item())
    return np.array(scores)


def save_graph(folder: Path) -> None:
    """A BERT as an ONNX graph of batches, with its tokenizer; the weights of transformers are in another folder."""
    classifier("bert", **SIZES)(folder / "kept")
    model, tokens = read(folder / "kept", "SequenceClassification")
    for part in (model.config, tokens):
        part.save_pretrained(folder)
    coded = tokens("a query", "and a passage", return_tensors="pt")
    names = ["input_ids", "attention_mask", "token_type_ids"]
    torch.onnx.export(
        model, (dict(coded),), str(folder / "model.onnx"), input_names=names, output_names=["logits"],
        dynamic_axes={name: {0: "n", 1: "length"} for name in names}, dynamo=False,
    )  # fmt: skip


def graph_scores(folder: Path, length: int) -> np.ndarray:
    """The scores of the model that the graph was made from."""
    return classifier_scores(folder / "kept", length)


DEBERTA = SIZES | {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "type_vocab_size": 0}
PLAIN = {"layout": "plain", "pad": None}
GPT2 = {"n_embd": 16, "n_layer": 2, "n_head": 2, "initializer_range": 0.4}
DISTIL = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32, "initializer_range": 0.4}
WINDOW = SIZES | {"global_attn_every_n_layers": 3, "local_attention": 128, "cls_token_id": BOS, "sep_token_id": EOS}

FAMILIES = {
    "bert": Family(classifier("bert", **SIZES), classifier_scores),
    "bert, two logits": Family(classifier("bert", labels=2, **SIZES), classifier_scores),
    "xlm-roberta": Family(classifier("xlm-roberta", **SIZES), classifier_scores),
    "deberta-v2": Family(classifier("deberta-v2", **DEBERTA), classifier_scores),
    "electra": Family(classifier("electra", embedding_size=16, **SIZES), classifier_scores),
    "distilbert": Family(classifier("distilbert", **DISTIL), classifier_scores),
    "albert": Family(classifier("albert", embedding_size=16, **SIZES), classifier_scores),
    "modernbert": Family(classifier("modernbert", **WINDOW), classifier_scores),
    "modernbert, mean": Family(classifier("modernbert", classifier_pooling="mean", **WINDOW), classifier_scores),
    "gemma classifier": Family(classifier("gemma", layout="bos", **DECODER), classifier_scores),
    "classifier, padding in the tokenizer only": Family(classifier("qwen2", **PLAIN, **DECODER), classifier_scores),
    "gpt2 classifier": Family(classifier("gpt2", **PLAIN, **GPT2), classifier_scores),
    "default prompt": Family(save_prompted_classifier, library_scores),
    "qwen3 classifier, chat template": Family(save_template_classifier, library_scores, "sentence-transformers"),
    "qwen3 classifier, by name": Family(
        classifier("qwen3", layout="plain", **DECODER), prompted_classifier_scores, name="Qwen3-Reranker-0.6B-seq-cls"
    ),
    "qwen3-reranker": Family(
        save_answers("qwen3", chat_template=CHAT_ONLY, padding_side="left"),
        *(answer_scores(qwen3_input, "yes", "no"), "torch", "Qwen3-Reranker-0.6B"),
    ),
    "mxbai-rerank-v2": Family(
        save_answers("qwen2", chat_template=CHAT_ONLY),
        *(answer_scores(mxbai_input, "1", "0"), "torch", "mxbai-rerank-base-v2"),
    ),
    "bge-reranker-v2-gemma": Family(
        save_answers("gemma", layout="bos", bos_token="<s>"),
        *(answer_scores(gemma_input, "Yes", None), "torch", "bge-reranker-v2-gemma"),
    ),
    "LogitScore": Family(save_logit_score, library_scores, engine="sentence-transformers"),
    "Dense": Family(save_dense, library_scores, engine="sentence-transformers"),
    "monot5": Family(save_t5, t5_scores, engine="torch"),
    "onnx folder": Family(save_graph, graph_scores, engine="onnx", other_backend="onnx"),
}
