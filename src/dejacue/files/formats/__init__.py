"""Files of other tools: spans of states, read and written, one module for each format."""
