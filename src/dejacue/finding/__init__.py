"""From a video and words to a Finding, as stages that others call, too.

    FindRequest    what is asked                                          request.py
    locate_object  a video, and where the object is in it → Masks         locate.py
    encode         a video, masks, an encoder → a History of each object  _encode.py
    read           a history and words → Timeline                         _readout.py

``find`` and ``find_each`` (_find.py) call them one after the other and return a Finding
(finding.py). Information is logged ("dejacue"), progress is reported (dejacue.progress), and what a
reader must know is among the notes of what is returned.
"""
