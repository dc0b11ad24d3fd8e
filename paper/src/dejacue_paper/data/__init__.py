"""The release, its protocol, folders of data sets and their scores, and made histories."""
