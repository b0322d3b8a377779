"""Load a cross-encoder from a Hugging Face checkpoint with a classification head, the most common kind."""

from functools import partial
from pathlib import Path
from typing import Any

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import cross_encoder_folder
from tour_pyserini.rerankers.backends import PROVED, Checkpoint
from tour_pyserini.rerankers.classifier import ClassifierReranker, output_count_error
from tour_pyserini.rerankers.description import ENGINES, PRECISIONS, Description, score_of_logits
from tour_pyserini.rerankers.options import Options
from tour_pyserini.rerankers.pair_tokens import POLICY, PairTokens, pair_tokens
from tour_pyserini.rerankers.prompt_tokens import PromptTokens
from tour_pyserini.rerankers.prompts import FAMILIES, PAIR, Prompt, choose_prompt
from tour_pyserini.rerankers.reranker import Reranker
from tour_pyserini.support.checkpoints import chosen_dtype, read_config, read_tokenizer, usable_length
from tour_pyserini.support.model_files import checkpoint_files, fingerprint, is_checkpoint
from tour_pyserini.support.optional import import_optional

BACKENDS: tuple[str, ...] = ("onnx", "torch")
FILES = "config.json with weights (*.safetensors)"  # of the other kinds of checkpoints too
TAKES_PROMPT = True


def accepts(folder: Path) -> bool:
    """Whether the folder holds a checkpoint; `load` refuses a checkpoint without a classification head."""
    return is_checkpoint(folder)


def load(folder: Path, options: Options, *, name: str) -> Reranker:
    """Load the re-ranker in a checkpoint folder."""
    config = read_config(folder, trust_remote_code=options.trust_remote_code)
    _check_architecture(config, options, name)
    if config.num_labels not in (1, 2):
        raise output_count_error(name, config.num_labels)
    tokenizer = read_tokenizer(folder, trust_remote_code=options.trust_remote_code)
    prompt = None if options.prompt == PAIR else choose_prompt(folder, options.prompt, name=name)
    if options.prompt is None and getattr(tokenizer, "chat_template", None):
        if carries_pairs(tokenizer):
            return cross_encoder_folder.load(folder, options, name=name)
        if prompt is None:
            raise TourError(
                f"{name} is a classifier of chats, whose chat template has no place for a query and a passage; say "
                f"what it reads with --reranker-prompt (in Python: prompt): {PAIR} for the two texts alone, "
                f"{', '.join(FAMILIES)}, or a file."
            )
    return _load_classifier(folder, config, tokenizer, prompt, options, name=name)


def _check_architecture(config: Any, options: Options, name: str) -> None:
    """Refuse an architecture that transformers has no classifier for, such as one that also reads images."""
    classifiers = import_optional("transformers").MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING
    if type(config) not in classifiers and not options.trust_remote_code:
        head = (config.architectures or [config.model_type])[0]
        raise TourError(
            f"{name} is a {head}, which transformers does not run as a classifier of pairs of texts; choose another "
            "re-ranker, or one with modules.json of sentence-transformers."
        )


def carries_pairs(tokenizer: Any) -> bool:
    """Whether the tokenizer's chat template shows a query and a passage, as sentence-transformers fills it."""
    pairs = (("one", "two"), ("three", "two"), ("one", "four"))
    return any(len(_rendered(tokenizer, pairs, structured=structured)) == len(pairs) for structured in (False, True))


def _rendered(tokenizer: Any, pairs: tuple[tuple[str, str], ...], *, structured: bool) -> set[str]:
    """The distinct texts that the chat template makes of the pairs."""
    texts = set()
    for pair in pairs:
        contents = [[{"type": "text", "text": text}] if structured else text for text in pair]
        roles = zip(("query", "document"), contents, strict=True)
        messages = [{"role": role, "content": content} for role, content in roles]
        try:
            texts.add(str(tokenizer.apply_chat_template(messages, tokenize=False)))
        except Exception:  # the template refuses such messages in its own way
            return set()
    return texts


def _load_classifier(
    folder: Path, config: Any, tokenizer: Any, prompt: Prompt | None, options: Options, *, name: str
) -> ClassifierReranker:
    declared = cross_encoder_folder.declared_settings(folder)
    length = usable_length(folder, config, tokenizer, min(options.max_length, declared.max_length))
    longest = usable_length(folder, config, tokenizer, max(length, PROVED), warn=False)
    make: Any = partial(pair_tokens, tokenizer, prefix=declared.prompt)
    if prompt is not None:
        make = partial(PromptTokens, tokenizer, prompt, name=name)
    probe_tokens: PairTokens = make(max_length=longest)
    dtype = chosen_dtype(folder, options.wanted_dtype, options.device)
    # Without a padding token, pairs of different lengths cannot share a batch.
    fill = {} if tokenizer.pad_token_id is None else {"input_ids": tokenizer.pad_token_id}
    fill["token_type_ids"] = tokenizer.pad_token_type_id
    pad_left = tokenizer.padding_side == "left"
    checkpoint = Checkpoint(folder, config, probe_tokens, dtype=dtype, fill=fill, pad_left=pad_left)
    classifier, settings = checkpoint.classifier(options)
    template: Any = prompt or ([POLICY, declared.prompt] if declared.prompt else POLICY)
    files = checkpoint_files(folder, code=options.trust_remote_code)
    text = prompt.text if prompt else declared.prompt or None
    return ClassifierReranker(
        name,
        fingerprint("sequence-classification", files, max_length=length, template=template, **settings),
        Description(
            (config.architectures or [config.model_type])[0],
            score_of_logits(config.num_labels),
            text,
            ENGINES[classifier.backend],
            "int8" if "precision" in settings else PRECISIONS[dtype],
            dtype,
            length,
        ),
        make(max_length=length),
        classifier,
        options,
        fill=fill,
        pad_left=pad_left,
        one_pair_per_call="input_ids" not in fill,
    )
