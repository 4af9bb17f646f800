"""The dictionary: about 220 nouns, 130 verbs, 65 adjectives, and the small words; all of it written for this corpus."""
