"""Keep what was measured, summarise it, show it."""
