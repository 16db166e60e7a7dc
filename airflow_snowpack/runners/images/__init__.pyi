from .errors import (
    BuilderUnavailable as BuilderUnavailable,
    DockerfileNotFound as DockerfileNotFound,
    ImageBuildFailed as ImageBuildFailed,
    ImageBuildNotFound as ImageBuildNotFound,
    ImageBuildStopped as ImageBuildStopped,
    InvalidImageBuild as InvalidImageBuild,
    InvalidImageTarget as InvalidImageTarget,
    RepositoryUnavailable as RepositoryUnavailable,
    RevisionNotFound as RevisionNotFound,
)
from .model import (
    AttemptOutcome as AttemptOutcome,
    Building as Building,
    Failed as Failed,
    ImagePolicy as ImagePolicy,
    ImageRecord as ImageRecord,
    ImageState as ImageState,
    ImageWait as ImageWait,
    PastAttempt as PastAttempt,
    Ready as Ready,
)
from .records import ImageRecords as ImageRecords
from .registry import ImageBuilds as ImageBuilds
from .source import ImageBuild as ImageBuild
from .target import ImageTarget as ImageTarget, Registry as Registry
