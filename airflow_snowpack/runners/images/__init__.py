"""Images that workers build from Git repositories, each exactly once, however many tasks and hosts need it.

    images = installation.image_builds
    found = images.ensure(ImageBuild("https://github.com/acme/score.git", "main"), build=True)
    found.reference                          # registry.example.com/snowpack@sha256:…, or found is Building

Names load on first use: a DAG file that describes an image loads neither the registry nor its database.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
