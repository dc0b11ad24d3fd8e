"""The studio: a web page over a folder of videos and findings, and the HTTP API behind it.

    serve.py        the socket, the server and the browser
    app.py          create_app: the workspace as a whole, routes by topic, errors as sentences
    security.py     who may send requests: token, Host, Origin, headers, sizes
    workspace.py    the folder: its contents, ids (relative paths), one studio at a time
    state.py        what requests share: findings, encoders, open videos, jobs
    models.py       what routes share
    findings.py, job_routes.py, videos.py   routes

Routes call the functions of the library, and everything that they write is a file that the command
line reads.
"""
