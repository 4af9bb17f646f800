"""The lexicon of the corpus, with about 220 nouns, 130 verbs, 65 adjectives and the function words."""
