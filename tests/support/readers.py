"""Settings of small readers that are trained in tests."""

SMALL = {
    "embedded": 300,
    "vocabulary_size": 600,
    "width": 16,
    "batch_tokens": 600,
    "warmup": 5,
    "max_tokens": 128,
    "stride": 32,
    "validate_questions": 20,
    "average": 0.0,
}
