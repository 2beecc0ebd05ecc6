"""Templates and Karpenter CRDs shared by the components and the controller."""
