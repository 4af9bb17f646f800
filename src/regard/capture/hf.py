"""The former place of :mod:`regard.integrations.huggingface`. Importing it raises an error that names the new one."""

raise ImportError(
    'regard.capture.hf has moved: use "import regard.integrations.huggingface" to register '
    'attn_implementation="regard"',
    name="regard.capture.hf",
)
