"""The command line: words in, one call into a room, results on stdout, progress on stderr."""
