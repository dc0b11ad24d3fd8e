"""The studio: a web page over a folder of videos and findings, and the HTTP API behind it.

    workspace.py   the folder: what lies in it, ids (relative paths), one studio at a time
    security.py    who may ask: token, sessions, Host, Origin, headers, sizes
    app.py         create_app: routes by topic, errors as sentences
    state.py       what is kept between requests: findings, encoders, open videos, jobs

Everything that the routes do is done by the functions of the library, and everything that they
write is a file that the command line reads.
"""
