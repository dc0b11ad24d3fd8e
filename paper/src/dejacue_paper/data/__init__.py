"""The release, its protocol, annotation passes, folders of data sets and their scores, and made
histories."""
