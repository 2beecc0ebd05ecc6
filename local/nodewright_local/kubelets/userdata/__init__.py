"""User data of each image family, decoded the way that family's first-boot agent does.

Pure: bytes in, a :class:`~nodewright_local.kubelets.userdata.bootstrap.Bootstrap` or a
:class:`~nodewright_local.kubelets.userdata.bootstrap.UserDataError` out. Whether the cluster named
there answers, and whether it lets the node in, is the joiner's question.
"""
