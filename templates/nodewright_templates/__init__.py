"""Templates that Nodewright renders: node user data and the Karpenter CRDs."""

from nodewright_templates.rendering import RenderError, render

__all__ = ["RenderError", "render"]
