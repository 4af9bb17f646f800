"""The fifth stop, the attention of a model that was not made for Regard."""

from __future__ import annotations

from typing import Any

from regard.learn.tour.presenter import Presenter
from regard.learn.words import Words
from regard.terminal import draw_weights

__all__ = ["TEXT", "stop"]

TEXT = "The animal didn't cross the street because it was too tired."

TITLE = Words("Capture: look into any PyTorch model", "捕获：看清任何 PyTorch 模型的内部")
BEFORE = Words(
    """
    regard.capture() records the attention of a model that knows nothing of Regard, while the model runs on its own
    kernels. Here it is {name}.
    """,
    """
    regard.capture() 可以记录任何模型的注意力，模型本身不需要知道 Regard，仍然用它自己的内核运行。
    这里的模型是 {name}。
    """,
)
MINILM = Words("MiniLM, a BERT of 6 layers with 12 heads each", "MiniLM，一个 6 层、每层 12 个头的 BERT")
TRAINED = Words(
    "an nn.TransformerEncoder of PyTorch with the trained weights of the translator to French",
    "PyTorch 的 nn.TransformerEncoder，权重取自训练好的英法翻译模型",
)
TORCH = Words(
    "an nn.TransformerEncoder of PyTorch with random weights, because no trained model can be loaded",
    "PyTorch 的 nn.TransformerEncoder，权重是随机的，因为没有可以加载的训练好的模型",
)
CODE = """\
with regard.capture(model, {label}) as seen:
    model({inputs})
seen.save_html("attention.html")"""
AFTER = Words(
    """
    {count} attentions were recorded: {heads} heads. The largest difference between the output of the model with and
    without the capture is {difference}. The head with the most structure is head {head} of {layer}:
    """,
    """
    一共记录到 {count} 个注意力，{heads} 个头。捕获前后模型输出的最大差异是 {difference}。
    结构最明显的是 {layer} 的第 {head} 个头：
    """,
)


def stop(presenter: Presenter) -> None:
    """Capture MiniLM, or an encoder of PyTorch, check that its output is unchanged, and draw one head."""
    from regard.viewer.opening import opening

    name, seen, verified, code = _minilm() or _trained_encoder() or _random_encoder()
    presenter.say(BEFORE, name=presenter.words(name))
    presenter.verbatim(code)
    records = list(seen)
    shown = opening(records)
    record, head = records[shown["record"]], shown["head"]
    heads = sum(one.map.shape[1] for one in records)
    facts = {"count": len(records), "heads": heads, "difference": f"{verified.difference:.1g}"}
    presenter.say(AFTER, **facts, head=head, layer=record.name)
    weights = record.map.select(heads=head).weights()[0, 0].numpy()  # (q,k)
    words = [str(word).strip() or str(word) for word in record.query_tokens[0]]
    presenter.drawn(lambda console: draw_weights(weights, words, console=console))
    presenter.view(records, TEXT)


def _minilm() -> tuple[Words, Any, Any, str] | None:
    """Return the capture of MiniLM while it reads the text, or None if it or Transformers is not installed."""
    from regard.errors import MissingExtraError
    from regard.tasks.hf_reader import load_with_transformers
    from regard.tasks.minilm import installed_minilm

    folder = installed_minilm()
    if folder is None:
        return None
    try:
        tokenizer, model = load_with_transformers(folder, two_sides=False)
    except MissingExtraError:
        return None
    inputs = tokenizer(TEXT, return_tensors="pt")
    code = CODE.format(label="tokenizer=tokenizer", inputs="**inputs")
    return (MINILM, *_captured(model, inputs, tokenizer=tokenizer), code)


def _trained_encoder() -> tuple[Words, Any, Any, str] | None:
    """Return the capture of PyTorch's encoder with trained weights, or None if the translator cannot be loaded."""
    import torch

    from regard.errors import RegardError
    from regard.tasks.translate import Translator

    try:
        translator = Translator.load("en-fr")
    except RegardError:
        return None
    vocabulary = translator.source
    pieces = [TEXT[slice(*span)].strip() for span in vocabulary.spans(TEXT)]
    ids = torch.tensor([[*vocabulary.encode(TEXT), vocabulary.eos]])  # (b,n)
    inputs = {"src": translator.model.encoder.embedding(ids).detach()}  # (b,n,m)
    code = CODE.format(label="tokens=words", inputs="x")
    captured = _captured(as_torch(translator.model.encoder), inputs, tokens=[*pieces, "</s>"])
    return (TRAINED, *captured, code)


def as_torch(ours: Any) -> Any:
    """Return PyTorch's ``nn.TransformerEncoder`` with the weights of an encoder of Regard with pre-norm."""
    from torch import nn

    sizes = ours.config
    layer = nn.TransformerEncoderLayer(
        sizes.width,
        sizes.heads,
        sizes.feed_forward,
        activation=sizes.activation,
        batch_first=True,
        norm_first=True,
    )
    norm = nn.LayerNorm(sizes.width)
    theirs = nn.TransformerEncoder(layer, len(ours.layers), norm, enable_nested_tensor=False)
    norm.load_state_dict(ours.norm.state_dict())
    peers: Any = theirs.layers
    for block, peer in zip(ours.layers, peers, strict=True):
        peer.self_attn = block.self_attention.to_torch()
        peer.linear1.load_state_dict(block.feed_forward.widen.state_dict())
        peer.linear2.load_state_dict(block.feed_forward.narrow.state_dict())
        peer.norm1.load_state_dict(block.self_norm.state_dict())
        peer.norm2.load_state_dict(block.feed_norm.state_dict())
    return theirs.eval()


def _random_encoder() -> tuple[Words, Any, Any, str]:
    """Return the capture of an encoder of PyTorch with random weights."""
    import torch

    torch.manual_seed(0)
    words = TEXT.removesuffix(".").split()
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    inputs = {"src": torch.randn(1, len(words), 32)}  # (b,n,m)
    code = CODE.format(label="tokens=words", inputs="x")
    return (TORCH, *_captured(model, inputs, tokens=words), code)


def _captured(model: Any, inputs: Any, **labels: Any) -> tuple[Any, Any]:
    """Return the recording of a model, and the comparison of its output with and without the capture."""
    import torch

    from regard.capture import capture

    model.eval()
    with torch.no_grad(), capture(model, **labels) as seen:
        model(**inputs)
    with torch.no_grad():
        return seen, seen.verify(**inputs)
