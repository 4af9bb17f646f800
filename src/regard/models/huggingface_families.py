"""The settings and the names of tensors in the Hugging Face folders of BERT, RoBERTa and DistilBERT.

The tables of names map modules of Regard to modules of Hugging Face. An entry holds for the weight and for the bias of
a module.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["ACTIVATIONS", "FAMILIES", "Family"]

# Activations that Regard computes, by their names in Hugging Face's settings.
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
}


@dataclass(frozen=True)
class Family:
    """The settings and the names of one family of encoders.

    - ``prefix`` is the beginning of the names of all tensors of the encoder in a model with a head.
    - ``blocks`` is the name of the list of blocks, after ``prefix``.
    - ``settings`` maps settings of :class:`regard.models.EncoderConfig` to fields of ``config.json``.
    - ``names`` maps modules of :class:`regard.models.Encoder` to names after ``prefix``.
    - ``block`` maps modules of one block to names after ``blocks`` and the number of the block.
    - ``heads`` maps the other modules of each kind of model, without ``prefix``. A name that begins with a dot has the
      prefix. The weight and the bias of an output layer that may be tied are mapped one by one.
    - ``ignored`` are tensors that some files hold and no model needs.
    """

    prefix: str
    blocks: str
    settings: dict[str, str]
    names: dict[str, str]
    block: dict[str, str]
    heads: dict[str, dict[str, str]]
    # The activation of the layer before the output of a classifier.
    projection: str
    # Whether the first position is the id of padding plus 1, as in RoBERTa.
    positions_after_padding: bool = False
    # The activation in the head of the masked language model, if it is not that of the blocks.
    head_activation: str = ""
    ignored: tuple[str, ...] = field(default=("embeddings.position_ids", "embeddings.token_type_ids"))


_BERT_SETTINGS = {
    "vocabulary_size": "vocab_size",
    "width": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "feed_forward": "intermediate_size",
    "activation": "hidden_act",
    "max_length": "max_position_embeddings",
    "token_types": "type_vocab_size",
    "norm_epsilon": "layer_norm_eps",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
}
_BERT_NAMES = {
    "embedding.tokens": "embeddings.word_embeddings",
    "embedding.positions.pos_embedding": "embeddings.position_embeddings",
    "embedding.types": "embeddings.token_type_embeddings",
    "embedding.norm": "embeddings.LayerNorm",
}
_BERT_BLOCK = {
    "self_attention.W_q": "attention.self.query",
    "self_attention.W_k": "attention.self.key",
    "self_attention.W_v": "attention.self.value",
    "self_attention.W_o": "attention.output.dense",
    "self_norm": "attention.output.LayerNorm",
    "feed_forward.widen": "intermediate.dense",
    "feed_forward.narrow": "output.dense",
    "feed_norm": "output.LayerNorm",
}
_SPAN = {"output.linear": "qa_outputs"}

_BERT = Family(
    prefix="bert.",
    blocks="encoder.layer",
    settings=_BERT_SETTINGS,
    names=_BERT_NAMES,
    block=_BERT_BLOCK,
    heads={
        "masked_language_model": {
            "transform": "cls.predictions.transform.dense",
            "norm": "cls.predictions.transform.LayerNorm",
            "output.bias": "cls.predictions.bias",
            "output.weight": "cls.predictions.decoder.weight",
        },
        "classifier": {"projection.0": ".pooler.dense", "output.linear": "classifier"},
        "span_reader": _SPAN,
    },
    projection="tanh",
)
_ROBERTA = Family(
    prefix="roberta.",
    blocks="encoder.layer",
    settings=_BERT_SETTINGS,
    names=_BERT_NAMES,
    block=_BERT_BLOCK,
    heads={
        "masked_language_model": {
            "transform": "lm_head.dense",
            "norm": "lm_head.layer_norm",
            "output.bias": "lm_head.bias",
            "output.weight": "lm_head.decoder.weight",
        },
        "classifier": {"projection.0": "classifier.dense", "output.linear": "classifier.out_proj"},
        "span_reader": _SPAN,
    },
    projection="tanh",
    positions_after_padding=True,
    head_activation="gelu",
)
_DISTILBERT = Family(
    prefix="distilbert.",
    blocks="transformer.layer",
    settings={
        "vocabulary_size": "vocab_size",
        "width": "dim",
        "layers": "n_layers",
        "heads": "n_heads",
        "feed_forward": "hidden_dim",
        "activation": "activation",
        "max_length": "max_position_embeddings",
        "dropout": "dropout",
        "attention_dropout": "attention_dropout",
    },
    names={ours: theirs for ours, theirs in _BERT_NAMES.items() if ours != "embedding.types"},
    block={
        "self_attention.W_q": "attention.q_lin",
        "self_attention.W_k": "attention.k_lin",
        "self_attention.W_v": "attention.v_lin",
        "self_attention.W_o": "attention.out_lin",
        "self_norm": "sa_layer_norm",
        "feed_forward.widen": "ffn.lin1",
        "feed_forward.narrow": "ffn.lin2",
        "feed_norm": "output_layer_norm",
    },
    heads={
        "masked_language_model": {
            "transform": "vocab_transform",
            "norm": "vocab_layer_norm",
            "output.bias": "vocab_projector.bias",
            "output.weight": "vocab_projector.weight",
        },
        "classifier": {"projection.0": "pre_classifier", "output.linear": "classifier"},
        "span_reader": _SPAN,
    },
    projection="relu",
)

# The families by the ``model_type`` of ``config.json``.
FAMILIES: dict[str, Family] = {
    "bert": _BERT,
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "camembert": _ROBERTA,
    "distilbert": _DISTILBERT,
}
