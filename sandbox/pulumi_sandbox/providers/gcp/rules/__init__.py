"""Rules of Google for inputs that no discovery document contains, each with its source."""
