"""The subjects of a verdict: frozen records whose fields are facts."""
