"""The dictionary: about 240 nouns, 120 verbs, 65 adjectives, and the small words; all of it written for this corpus."""
