"""Load a language model that answers whether a passage is relevant, such as Qwen3-Reranker or mxbai-rerank-v2."""

from pathlib import Path
from typing import Any

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.classifier import ClassifierReranker
from tour_pyserini.rerankers.description import PRECISIONS, Description
from tour_pyserini.rerankers.options import Options
from tour_pyserini.rerankers.pair_tokens import PROBES
from tour_pyserini.rerankers.prompt_tokens import PromptTokens
from tour_pyserini.rerankers.prompts import FAMILIES, PAIR, check_answers, choose_prompt
from tour_pyserini.support.checkpoints import chosen_dtype, read_config, read_model, read_tokenizer, usable_length
from tour_pyserini.support.model_files import checkpoint_files, fingerprint, is_checkpoint, read_json

BACKENDS: tuple[str, ...] = ("torch",)
TAKES_PROMPT = True


def accepts(folder: Path) -> bool:
    """Whether the folder holds a language model that predicts the next token."""
    if not is_checkpoint(folder):
        return False
    heads = read_json(folder / "config.json").get("architectures") or ()
    return any(head.endswith("ForCausalLM") for head in heads)


def load(folder: Path, options: Options, *, name: str) -> ClassifierReranker:
    """Load the re-ranker in a checkpoint folder.

    The score of a pair is the logit of the answer that means "relevant" minus the logit of the other answer, at the
    position after the prompt: the log-odds of the two answers. Families without a second answer use the first logit.
    """
    from tour_pyserini.rerankers.torch_answers import TorchAnswers

    prompt = None if options.prompt == PAIR else choose_prompt(folder, options.prompt, name=name)
    if prompt is None:
        raise TourError(
            f"{name} is a language model, and neither its files nor its name say what it reads and answers as a "
            f"re-ranker; say it with --reranker-prompt (in Python: prompt): {', '.join(FAMILIES)}, or a file; "
            "or save the model with sentence-transformers (CrossEncoder with LogitScore)."
        )
    trusted = options.trust_remote_code
    config = read_config(folder, trust_remote_code=trusted)
    tokenizer = read_tokenizer(folder, trust_remote_code=trusted)
    answers = check_answers(prompt, tokenizer, name=name)
    length = usable_length(folder, config, tokenizer, options.max_length)
    tokens = PromptTokens(tokenizer, prompt, max_length=length, name=name)
    dtype = chosen_dtype(folder, options.wanted_dtype, options.device)
    model = read_model(
        folder, "AutoModelForCausalLM", config, device=options.device, dtype=dtype, trust_remote_code=trusted
    )
    # Padding is masked and has no answer of its own, so any token will do for a tokenizer that has none for it.
    fill = {"input_ids": tokenizer.pad_token_id or 0}
    rows = next(iter(tokens.rows([PROBES[:2]])))
    settings: dict[str, Any] = {} if dtype == "float32" else {"dtype": dtype}
    files = checkpoint_files(folder, code=trusted)
    return ClassifierReranker(
        name,
        fingerprint("causal-lm", files, max_length=length, template=prompt, **settings),
        Description(
            type(model).__name__,
            " minus ".join(f"logit of {answer!r}" for answer in (prompt.yes, prompt.no) if answer is not None),
            prompt.text,
            "torch",
            PRECISIONS[dtype],
            dtype,
            length,
        ),
        tokens,
        TorchAnswers(model, answers, options, rows, fill),
        options,
        fill=fill,
        pad_left=True,
    )
