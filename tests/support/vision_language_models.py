"""Small vision-language models of Hugging Face, built from their configs without downloads, and their inputs.

Every model has a vocabulary of 53 tokens, 2 layers of text, and the token ids below.
"""

from __future__ import annotations

from typing import Any

import torch

VOCABULARY = 53
# Token ids with the same meaning in all models.
PAD, PICTURE, START, END, FAKE, GLOBAL, NEWLINE = 0, 50, 51, 52, 49, 48, 47
# The id of <row_1_col_1>. There are ids for two rows and three columns of tiles.
FIRST_TILE = 41

TEXT = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 20,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "pad_token_id": PAD,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
VISION = {
    "hidden_size": 24,
    "intermediate_size": 20,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "image_size": 12,
    "patch_size": 2,
}


def spelled(ids: list[int]) -> list[str]:
    """Spell token ids as the tokenizers of these models do, and other ids as w and their number."""
    special = {PAD: "<pad>", PICTURE: "<image>", START: "<|vision_start|>", END: "<|vision_end|>"}
    special |= {FAKE: "<fake_token_around_image>", GLOBAL: "<global-img>", NEWLINE: "\n"}
    special |= {FIRST_TILE + n: f"<row_{n // 3 + 1}_col_{n % 3 + 1}>" for n in range(6)}
    return [(special | COLOURS).get(n, f"w{n}") for n in ids]


def padded(rows: list[list[int]], side: str = "right") -> dict[str, torch.Tensor]:
    """Return token ids of several lengths as one batch, with its attention mask."""
    longest = max(map(len, rows))
    blank = [[PAD] * (longest - len(row)) for row in rows]
    ids = [row + more if side == "right" else more + row for row, more in zip(rows, blank, strict=True)]
    mask = [
        [1] * len(row) + [0] * len(more) if side == "right" else [0] * len(more) + [1] * len(row)
        for row, more in zip(rows, blank, strict=True)
    ]
    return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}


def pixels(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def llava(**settings: Any) -> Any:
    """Return a LLaVA model, whose pictures of 12 x 12 pixels have 6 x 6 patches."""
    from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration

    config = LlavaConfig(
        vision_config=CLIPVisionConfig(**VISION, projection_dim=8),
        text_config=LlamaConfig(**TEXT),
        image_token_index=PICTURE,
        **settings,
    )
    return made(LlavaForConditionalGeneration, config)


def pixtral() -> Any:
    """Return a LLaVA model with the vision tower of Pixtral, whose pictures have different sizes."""
    from transformers import LlamaConfig, LlavaConfig, LlavaForConditionalGeneration, PixtralVisionConfig

    vision = PixtralVisionConfig(**VISION | {"image_size": 24, "num_attention_heads": 3})
    settings = {"vision_feature_select_strategy": "full", "vision_feature_layer": -1}
    config = LlavaConfig(
        vision_config=vision, text_config=LlamaConfig(**TEXT), image_token_index=PICTURE, **settings
    )
    return made(LlavaForConditionalGeneration, config)


def llava_next(kind: str = "LlavaNext", **settings: Any) -> Any:
    """Return LLaVA-NeXT or LLaVA-OneVision with tiles of 12 x 12 pixels, which have 6 x 6 patches."""
    import transformers

    vision = {"LlavaNext": "CLIPVisionConfig", "LlavaOnevision": "SiglipVisionConfig"}[kind]
    text = {"LlavaNext": "LlamaConfig", "LlavaOnevision": "Qwen2Config"}[kind]
    config = getattr(transformers, f"{kind}Config")(
        vision_config=getattr(transformers, vision)(**VISION),
        text_config=getattr(transformers, text)(**TEXT),
        image_token_index=PICTURE,
        **{"image_grid_pinpoints": [[12, 24], [24, 12], [24, 24], [12, 36], [36, 12], [36, 36]]} | settings,
    )
    return made(getattr(transformers, f"{kind}ForConditionalGeneration"), config)


def qwen(kind: str = "Qwen2VL", *, depth: int = 2, side: int = 2, theta: float = 10000.0) -> Any:
    """Return Qwen2-VL, Qwen2.5-VL or Qwen3-VL, with patches of 2 x 2 pixels that are merged two by two.

    ``depth`` is the number of layers of the vision tower, ``side`` that of a patch, and ``theta`` the base of the
    rotary positions.
    """
    import transformers

    vision: dict[str, Any] = {"depth": depth, "num_heads": 2, "patch_size": side, "spatial_merge_size": 2}
    if kind == "Qwen2VL":
        vision |= {"embed_dim": 16, "hidden_size": 32, "mlp_ratio": 2}
    else:
        vision |= {"hidden_size": 16, "out_hidden_size": 32, "intermediate_size": 20}
    if kind == "Qwen2_5_VL":
        vision |= {"window_size": 8, "fullatt_block_indexes": [1]}
    if kind == "Qwen3VL":
        vision |= {"deepstack_visual_indexes": [0], "num_position_embeddings": 64}
    rope = {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": theta}
    if kind == "Qwen3VL":
        rope |= {"mrope_interleaved": True}
    text = TEXT | {"rope_parameters": rope} | ({"head_dim": 8} if kind == "Qwen3VL" else {})
    config = getattr(transformers, f"{kind}Config")(
        vision_config=vision,
        text_config=text,
        image_token_id=PICTURE,
        video_token_id=46,
        vision_start_token_id=START,
        vision_end_token_id=END,
    )
    return made(getattr(transformers, f"{kind}ForConditionalGeneration"), config)


RED, GREEN, BLUE = 10, 11, 12
COLOURS = {RED: "red", GREEN: "green", BLUE: "blue"}


def colour_seeker(side: int = 2) -> Any:
    """Return Qwen2-VL with weights set by hand, in which the word of a colour attends to the patches of this colour.

    The vision tower has no layers. A picture token holds the mean colour of its patch in the features 0 to 2, scaled
    to one length, and the words red, green and blue have one feature each, 3 to 5. Queries read the features of words
    and keys those of colours, in dimensions of a head that the rotary positions leave as they are.
    """
    model = qwen(depth=0, side=side, theta=1e16)
    gain, still = 3.0, (2, 3, 6)
    with torch.no_grad():
        for parameter in model.model.visual.parameters():
            parameter.zero_()
        tower, text = model.model.visual, model.model.language_model
        tower.merger.ln_q.weight.fill_(1)
        first, last = tower.merger.mlp[0], tower.merger.mlp[2]
        text.embed_tokens.weight.zero_()
        for colour in range(3):
            # The negative copy makes the mean 0, which the norm of the merger would subtract.
            tower.patch_embed.proj.weight[colour, colour] = 1 / (2 * side * side)
            tower.patch_embed.proj.weight[3 + colour, colour] = -1 / (2 * side * side)
            first.weight[colour, colour::16] = 0.25
            # GELU is linear for large numbers.
            first.bias[colour], last.bias[colour] = 10, -10
            last.weight[colour, colour] = 1
            text.embed_tokens.weight[RED + colour, 3 + colour] = 1
        for layer in text.layers:
            attention = layer.self_attn
            for parameter in (*attention.parameters(), *layer.mlp.parameters()):
                parameter.zero_()
            for colour, dimension in enumerate(still):
                attention.q_proj.weight[dimension::8, 3 + colour] = gain
                attention.k_proj.weight[dimension::8, colour] = 1
    return model


def paligemma(layers: int = 2) -> Any:
    """Return PaliGemma, whose pictures of 12 x 12 pixels have 6 x 6 patches."""
    from transformers import (
        GemmaConfig,
        PaliGemmaConfig,
        PaliGemmaForConditionalGeneration,
        SiglipVisionConfig,
    )

    config = PaliGemmaConfig(
        vision_config=SiglipVisionConfig(**VISION | {"num_hidden_layers": layers}, vision_use_head=False),
        text_config=GemmaConfig(**TEXT, head_dim=8),
        image_token_index=PICTURE,
        projection_dim=32,
    )
    return made(PaliGemmaForConditionalGeneration, config)


def idefics(kind: str = "Idefics3", layers: int = 2) -> Any:
    """Return Idefics3 or SmolVLM, whose tiles of 12 x 12 pixels have 3 x 3 tokens."""
    import transformers

    config = getattr(transformers, f"{kind}Config")(
        vision_config=VISION | {"num_hidden_layers": layers},
        text_config=transformers.LlamaConfig(**TEXT),
        image_token_id=PICTURE,
        scale_factor=2,
        pad_token_id=PAD,
    )
    return made(getattr(transformers, f"{kind}ForConditionalGeneration"), config)


def blip2() -> Any:
    """Return BLIP-2 with 4 query tokens, whose pictures of 12 x 8 pixels have 6 x 4 patches."""
    from transformers import Blip2Config, Blip2ForConditionalGeneration, OPTConfig

    qformer = {k: v for k, v in TEXT.items() if k in ("vocab_size", "intermediate_size", "num_hidden_layers")}
    config = Blip2Config(
        vision_config=VISION,
        qformer_config=qformer
        | {
            "hidden_size": 16,
            "num_attention_heads": 2,
            "encoder_hidden_size": 24,
            "cross_attention_frequency": 1,
        },
        text_config=OPTConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            ffn_dim=20,
            word_embed_proj_dim=32,
            max_position_embeddings=64,
            pad_token_id=PAD,
        ),
        num_query_tokens=4,
        image_token_index=PICTURE,
    )
    return made(Blip2ForConditionalGeneration, config)


def made(kind: Any, config: Any) -> Any:
    torch.manual_seed(0)
    model = kind(config).eval()
    model.generation_config.pad_token_id = PAD
    return model
