from .graph import Direction as Direction, Edge as Edge, Lineage as Lineage, LineageGraph as LineageGraph, Node as Node
from .operation import DatasetAt as DatasetAt, Operation as Operation, OperationKind as OperationKind, TableAt as TableAt
from .operations import OperationLog as OperationLog, note_operation as note_operation, record_operation as record_operation
