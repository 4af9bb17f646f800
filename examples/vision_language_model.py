"""Where each word of a vision-language model looks in a picture.

    python examples/vision_language_model.py FOLDER photo.jpg "What is on the table?"

FOLDER is a model of Hugging Face, such as LLaVA, Qwen2-VL or SmolVLM. Without arguments, it is a small LLaVA with
random weights, which shows the form of the output on a picture that comes with Regard. Needs the extras hf, plot and
images.
"""

import sys
from typing import Any

import torch
from PIL import Image
from transformers import (
    AutoModelForImageTextToText,
    AutoProcessor,
    CLIPVisionConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
)

import regard
from regard import tasks
from regard.images import read_image, resize_images

if len(sys.argv) == 4:
    folder, path, question = sys.argv[1:]
    picture = Image.open(path).convert("RGB")
    processor = AutoProcessor.from_pretrained(folder)
    model = AutoModelForImageTextToText.from_pretrained(folder)
    content = [{"type": "image", "image": picture}, {"type": "text", "text": question}]
    prompt = processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True)
    inputs = processor(images=[picture], text=prompt, return_tensors="pt")
else:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "initializer_range": 0.3,  # large enough that the weights differ
    }
    sees, reads = CLIPVisionConfig(**sizes, image_size=56, patch_size=14), LlamaConfig(**sizes, vocab_size=60)
    model = LlavaForConditionalGeneration(
        LlavaConfig(vision_config=sees, text_config=reads, image_token_index=50)
    )
    scene = tasks.find_model("caption") / "examples" / "scene-2.png"
    picture = resize_images(read_image(scene, channels=3), (56, 56))  # (56,56,3) bytes
    pixels = torch.tensor(picture).permute(2, 0, 1)[None] / 255  # (1,3,56,56)
    inputs = {"input_ids": torch.tensor([[1, *[50] * 16, 7, 8, 9]]), "pixel_values": pixels}
    processor = lambda ids: ["<image>" if one == 50 else f"word{one}" for one in ids]  # noqa: E731

with torch.no_grad(), regard.capture(model.eval(), tokenizer=processor) as seen:
    model(**inputs)
seen.save_html("looks.html", images=[picture])
regard.plot_picture_maps(picture, seen.picture_maps(), path="words.png")
print(f"{len(seen.picture_maps())} words: click them in looks.html, or see words.png")
