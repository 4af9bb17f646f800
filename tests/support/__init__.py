"""What several test modules share: models, records, commands, a browser."""
