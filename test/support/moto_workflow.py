"""What moto's interpreter of the States Language needs before it runs: as Debian packages it, and as AWS behaves."""

from antlr4 import Recognizer
from antlr4.atn.ATNDeserializer import ATNDeserializer


def read_parser_tables() -> None:
    """Debian's ANTLR runtime is 4.9, moto's tables are of 4.13: the same in parts, without offset and identity."""

    def deserialize(self, data):
        version, *_ = data
        if version != 4:
            raise ValueError(f"parser tables of version {version}, expected 4")
        self.data, self.pos = data, 1
        atn = self.readATN()
        self.readStates(atn)
        self.readRules(atn)
        self.readModes(atn)
        sets = []
        self.readSets(atn, sets, self.readInt)
        self.readEdges(atn, sets)
        self.readDecisions(atn)
        self.readLexerActions(atn)
        self.markPrecedenceDecisions(atn)
        self.verifyATN(atn)
        return atn

    ATNDeserializer.deserialize = deserialize
    Recognizer.Recognizer.checkVersion = lambda self, version: None


def start_executions() -> None:
    """The parameters of states:startExecution are written StateMachineArn and reach the client as stateMachineArn."""
    # its import reads the tables
    from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service_sfn import (
        StateTaskServiceSfn,
    )

    call = StateTaskServiceSfn._eval_service_task

    def with_names_of_the_client(self, env, resource_runtime_part, normalised_parameters, state_credentials):
        named = {name[:1].lower() + name[1:]: value for name, value in normalised_parameters.items()}
        call(self, env, resource_runtime_part, named, state_credentials)

    StateTaskServiceSfn._eval_service_task = with_names_of_the_client


def stay_stopped() -> None:
    """An execution that was stopped inside a Map ends as aborted, not by the error that its items then end with."""
    from moto.stepfunctions.parser.asl.eval.environment import Environment
    from moto.stepfunctions.parser.asl.eval.program_state import ProgramStopped

    fail = Environment.set_error

    def unless_stopped(self, error):
        if not isinstance(self.program_state(), ProgramStopped):
            fail(self, error)

    Environment.set_error = unless_stopped


read_parser_tables()
start_executions()
stay_stopped()
