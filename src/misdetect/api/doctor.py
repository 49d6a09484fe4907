"""``doctor``: is a detector wired up right?"""

from collections.abc import Callable
from typing import Concatenate, ParamSpec, cast

from misdetect.api.run import Run
from misdetect.api.studies import DataLike, DetectorLike, described, known_names, run_settings
from misdetect.detectors import load_detector
from misdetect.studies.doctor.settings import DoctorSettings
from misdetect.studies.doctor.study import bench_of

P = ParamSpec("P")


def _function(settings: Callable[P, DoctorSettings]) -> Callable[Concatenate[DetectorLike, DataLike, P], Run]:
    def doctor(detector: DetectorLike, data: DataLike, *args: P.args, **kwargs: P.kwargs) -> Run:
        how = settings(*args, **kwargs)
        model = load_detector(detector, known_names(detector, how.out))
        return run_settings("doctor", bench_of(model, how.reference), data, how)

    return cast("Callable[Concatenate[DetectorLike, DataLike, P], Run]", described(doctor, settings))


doctor = _function(DoctorSettings)
