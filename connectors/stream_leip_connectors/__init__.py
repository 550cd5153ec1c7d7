"""All of the I/O: files, brokers and other libraries. The statistics are in stream_leip."""
