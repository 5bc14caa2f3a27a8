"""What a run launched, shown to people: as one page for a browser, or as text."""
