"""`nodewright local demo`: the main job from `pulumi up` to `destroy`, told in plain words.

- `story.py` runs steps one after the other, times them, and says what to do when one fails;
- `walkthrough.py` is the story itself;
- `stack.py` runs the checkout's Pulumi program on the laptop cluster;
- `cluster_api.py`, `emulator.py` and `inventory.py` look at Kubernetes and at AWS;
- `observe.py` and `figures.py` turn what they see into lines and numbers (pure);
- `screen.py` decides the look.

Nothing here knows how an answer comes about: the demo uses the kubeconfig that the stack exports,
kubectl, and AWS calls, as a person would.
"""
