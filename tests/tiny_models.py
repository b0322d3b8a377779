"""Tiny encoders with random weights, one for each family of models that people use."""

import json

WORDS = ["<pad>", "<unk>", "<s>", "</s>", *"abcdefghijklmnop", "query:", "passage:", "find"]
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 40}


def save_tokenizer(folder, *, ends="both", side="right", length=64):
    """A tokenizer of single letters; `ends`: special tokens at `both` ends, or `after` the text only."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    inner.normalizer = normalizers.Lowercase()
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    single = "$A </s>" if ends == "after" else "<s> $A </s>"
    pair = "$A $B </s>" if ends == "after" else "<s> $A </s> $B </s>"
    inner.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=[("<s>", 2), ("</s>", 3)]
    )
    names = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    names |= {"cls_token": "<s>", "sep_token": "</s>", "model_input_names": ["input_ids", "attention_mask"]}
    settings = {"tokenizer_object": inner, "padding_side": side, "model_max_length": length}
    PreTrainedTokenizerFast(**settings, **names).save_pretrained(folder)


def save_transformer(folder, kind, *, length=64, **more):
    """The weights of a family, with its tokenizer."""
    import torch
    import transformers

    causal = kind in ("qwen3", "gemma3_text")
    sizes = {**SIZES, "vocab_size": len(WORDS), "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, **more}
    if kind in ("bert", "mpnet", "xlm-roberta", "modernbert"):
        sizes["max_position_embeddings"] = length + 2
    if causal:
        sizes |= {"num_key_value_heads": 2, "head_dim": 8}
    if kind == "gemma3_text":
        sizes |= {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 8}
        sizes |= {"use_bidirectional_attention": True}
    if kind == "modernbert":
        sizes |= {"cls_token_id": 2, "sep_token_id": 3, "local_attention": 8, "global_attn_every_n_layers": 2}
    torch.manual_seed(3)
    model = transformers.AutoModel.from_config(transformers.AutoConfig.for_model(kind, **sizes))
    with torch.no_grad():  # the library's own start gives texts vectors that are nearly the same
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.normal_(std=0.3)
    model.save_pretrained(folder)
    side = "left" if causal else "right"
    save_tokenizer(folder, ends="after" if causal else "both", side=side, length=length)
    return folder


def save_modules(
    folder, kind, *, pooling="mean", norm=True, dense=None, truncate_dim=None, prompts=None, include_prompt=True
):
    """A model of sentence-transformers: a transformer, and what its files say."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer

    plain = save_transformer(folder.with_name(f"{folder.name}-plain"), kind)
    parts = [Transformer(str(plain)), Pooling(SIZES["hidden_size"], pooling, include_prompt=include_prompt)]
    if dense:
        torch.manual_seed(4)
        parts.append(Dense(parts[1].get_embedding_dimension(), dense))
        parts.append(Dense(dense, 24, bias=False, activation_function=torch.nn.GELU()))
    modules = [*parts, *([Normalize()] if norm else [])]
    SentenceTransformer(modules=modules, device="cpu", prompts=prompts, truncate_dim=truncate_dim).save(str(folder))
    return folder


def save_static(folder, *, norm=True):
    """Static embeddings in modules of sentence-transformers."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding
    from tokenizers import Tokenizer

    save_tokenizer(folder)
    torch.manual_seed(5)
    inner = StaticEmbedding(Tokenizer.from_file(str(folder / "tokenizer.json")), embedding_dim=12)
    SentenceTransformer(modules=[inner, *([Normalize()] if norm else [])], device="cpu").save(str(folder))
    return folder


def with_code(folder, file, head=""):
    """Let a model of BERT ask for Python code that lies beside it; the code leaves a mark when it runs."""
    classes = {"AutoConfig": "payload.PayloadConfig", f"AutoModel{head}": "payload.PayloadModel"}
    change_json(folder / "config.json", auto_map=classes)
    (folder / "payload.py").write_text(
        f"open({str(file)!r}, 'w').write('ran')\n"
        f"from transformers import BertConfig, Bert{head or 'Model'} as Bert\n"
        "class PayloadConfig(BertConfig):\n    model_type = 'payload'\n"
        "class PayloadModel(Bert):\n    config_class = PayloadConfig\n"
    )
    return folder


def change_json(path, **values):
    """Change values in a JSON file; None removes one."""
    content = json.loads(path.read_text()) | values
    path.write_text(json.dumps({name: value for name, value in content.items() if value is not None}))


def with_prompts(folder, prompts, default=None):
    """Write the prompts of a model exactly so; the library itself adds empty ones when it saves a model."""
    change_json(folder / "config_sentence_transformers.json", prompts=prompts, default_prompt_name=default)
    return folder
