"""The Hugging Face models of the zoo, with the settings that make each of them small."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

SMALL: dict[str, Any] = {
    **dict.fromkeys(
        ("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "word_embed_proj_dim", "emb_dim"), 24
    ),
    **dict.fromkeys(("embedding_size", "projection_dim"), 24),
    **dict.fromkeys(("num_hidden_layers", "num_layers", "n_layer", "n_layers"), 2),
    **dict.fromkeys(("encoder_layers", "decoder_layers", "num_encoder_layers", "num_decoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads"), 3),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 3),
    **dict.fromkeys(("num_encoder_attention_heads", "num_decoder_attention_heads"), 3),
    "num_key_value_heads": 3,
    **dict.fromkeys(("head_dim", "d_kv", "v_head_dim", "q_lora_rank", "kv_lora_rank"), 8),
    **dict.fromkeys(("qk_rope_head_dim", "qk_nope_head_dim", "rotary_dim", "index_head_dim"), 4),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff"), 16),
    **dict.fromkeys(("n_inner", "hidden_dim", "moe_intermediate_size"), 16),
    "vocab_size": 97,
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx"), 64),
    **dict.fromkeys(("max_source_positions", "max_target_positions"), 64),
    **dict.fromkeys(("image_size",), 20),
    "patch_size": 4,
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "num_conv_pos_embedding_groups", "type_vocab_size"), 2),
    "num_conv_pos_embeddings": 4,
    "pad_token_id": 0,
}
"""Sizes by the names that configs have for them."""

_NAMES = """
aimv2_vision_model albert apertus arcee audioflamingo3 aya_vision bart beam beit bert
bert-generation bigbird_pegasus biogpt bitnet blenderbot blenderbot-small bloom camembert canine
chinese_clip_vision_model clip_text_model clip_vision_model cohere cohere2 cohere2_vision
convbert cosmos3_omni ctrl cwm data2vec-audio data2vec-text data2vec-vision deberta
deberta-v2 deepseek_vl deit dinov2 dinov2_with_registers dinov3_vit distilbert doge dpr dpt
electra ernie ernie4_5 esmc eurobert exaone4 falcon flaubert flint fsmt fuyu gemma
gemma2 gemma3 gemma3_text git glm glm4 glmasr glmasr_encoder got_ocr2 gpt2 gpt_bigcode gpt_neox
gpt_neox_japanese granite granite_speech granite_speech_plus granite_swa gte helium
higgs_audio_v2 hrm_text hubert hyperclovax hyperclovax_vision_v2 ibert idefics2 idefics3 ijepa
imagegpt internvl internvl_vision jais2 jetmoe jina_embeddings_v3 lasr_ctc lasr_encoder layoutlm
led lfm2 lfm2_vl lighton_ocr lilt llama llama4_text llava llava_next llava_next_video
llava_onevision longformer longt5 m2m_100 marian markuplm mbart megatron-bert minicpm3
ministral3 mistral mistral3 mlcd_vision_model mllama modernbert modernbert-decoder modernvbert
molmo2_text moshi moss_transcribe_diarize moss_transcribe_diarize_audio mpnet mpt mt5
muse_glimmer_text mvp nanochat nemotron nemotron3_5_transcribe_asr_audio
nemotron3_diarization_audio nllb-moe nomic_bert nystromformer olmo olmo2 olmo3 olmo_hybrid
openai-gpt openai_privacy_filter opt ovis2 paligemma pegasus  persimmon phi phi3
phi4_multimodal pixio pixtral plbart  pvt_v2 qianfan_ocr qianfan_ocr_vision qwen2
qwen2_audio qwen2_audio_encoder qwen3 qwen3_asr qwen3_vl qwen3_vl_text rembert roberta
roberta-prelayernorm roformer sam3_vit_model sam_hq_vision_model sam_vision_model sapiens2
seed_oss sew sew-d siglip_vision_model smollm3 smolvlm splinter squeezebert stablelm starcoder2
switch_transformers t5 t5gemma t5gemma2 tapas tipsv2_text_model tipsv2_vision_model ultrabert
ultravbert umt5 unispeech unispeech-sat vaultgemma video_llama_3 video_llava vipllava
visual_bert vit vit_mae vit_msn vitdet voxtral voxtral_encoder voxtral_realtime_encoder wav2vec2
wav2vec2-conformer wavlm xlm xlm-roberta xlm-roberta-xl xlnet mlcd
afmoe aria aria_text axk2 cohere2_moe deepseek_v2 deepseek_v32 deepseek_v4 deepseek_vl_hybrid
ernie4_5_moe esm exaone_moe flex_olmo glm4_moe glm4_moe_lite glm_moe_dsa gpt-sw3 gpt_oss gptj
granitemoe granitemoe_swa granitemoeshared hunyuan_v1_dense hunyuan_v1_moe hy_v3 hy_v4
inkling_mm_model inkling_text kolibri1 kosmos-2.5 laguna llama4 mellum mgp-str minimax_m2
minimax_m3_vl minimax_m3_vl_text ministral mistral4 mistral_large4 mistral_large4_text mixtral
muse_spark_text nemotron_h olmoe phimoe qwen2_moe qwen3_moe qwen3_vl_moe qwen3_vl_moe_text radio
roc_bert solar_open unlimited_ocr
"""
MODELS = tuple(_NAMES.split())

TWEAKS: dict[str, dict[str, Any]] = {
    "aimv2_vision_model": {"use_head": False},
    "siglip_vision_model": {"vision_use_head": False},
    "longformer": {"attention_window": [4, 4]},
    "led": {"attention_window": [4, 4]},
}
"""Sizes of single models; None leaves the default."""

Numbers = Callable[..., Tensor]
GIVEN: dict[str, Callable[[Any, Numbers], dict[str, Any]]] = {
    # As many tokens as a window has. Fewer are padded, and the model cuts off the weights of the padding.
    "longformer": lambda config, numbers: {"input_ids": torch.arange(3, 19).view(2, 8)},
    "led": lambda config, numbers: {
        "input_ids": torch.arange(3, 19).view(2, 8),
        "decoder_input_ids": torch.arange(20, 30).view(2, 5),
    },
    "vit_mae": lambda config, numbers: {
        "pixel_values": numbers(2, 3, 20, 20),
        "noise": numbers(2, 25),
    },
}
"""What a model is given where its main argument alone is not enough."""

SINKS = ("deepseek_v4", "gpt_oss", "hy_v4", "openai_privacy_filter", "flint")
"""Models whose rows give a part of their weight to a sink, and whose own weights leave it out."""

OF_SOFTMAX = ("lilt",)
"""Models that return the weights of some of their attentions only; of all, what the softmax returned is the truth."""

AVERAGED = ("wavlm",)
"""Models that return the mean of their heads, once for each head."""

Weights = dict[str, list[Tensor]]


def _each(change: Callable[[Tensor], Tensor]) -> Callable[[Weights], Weights]:
    return lambda weights: {at: [change(x) for x in parts] for at, parts in weights.items()}


def _joined(weights: Weights) -> Weights:
    """Return one map of a decoder that attends to its own keys and those of the encoder together."""
    pairs = zip(weights["decoder_attentions"], weights["cross_attentions"], strict=True)
    both = [torch.cat(pair, dim=-1) for pair in pairs]  # (b,h,q,k)
    return {"encoder_attentions": weights["encoder_attentions"], "cross_attentions": both}


AS_MAPS: dict[str, Callable[[Weights], Weights]] = {
    "squeezebert": _each(lambda scores: scores.softmax(dim=-1)),
    "sam_vision_model": _each(lambda x: x.unflatten(0, (2, 3))),
    "sam_hq_vision_model": _each(lambda x: x.unflatten(0, (2, 3))),
    "longt5": _each(lambda x: x.flatten(0, 1) if x.ndim == 5 else x),  # (b,blocks,h,q,k)
    "t5gemma2": _joined,
}
"""Weights that a model returns in a form of its own, as maps."""
