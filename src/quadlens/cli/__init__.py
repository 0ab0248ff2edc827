"""The command line: words in, one call into a package, results on stdout, progress on stderr."""
