"""What is wrong with an agent is found when its class is defined, in words that name the class and the fix."""

# pyright: reportUnusedClass=false, reportUnusedFunction=false, reportArgumentType=false, reportCallIssue=false
# (classes that must be refused are defined for that alone)
from __future__ import annotations

import types
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pytest

from regrow_signals.errors import BadDefinition, ImpureHandler
from regrow_signals.signal import Payload, Signal
from regrow_workers.agent import Agent
from regrow_workers.context import Context
from regrow_workers.directives import Emit
from regrow_workers.handlers import handles
from regrow_workers.state import State
from regrow_workers.step import Step

if TYPE_CHECKING:
    from decimal import Decimal as OnlyForCheckers


class Opened(Payload, type="ticket.opened"):
    subject: str = ""


class Closed(Payload, type="ticket.closed"):
    pass


class Untyped(Payload):
    pass


class Desk(State):
    open: int = 0


class Other(State):
    n: int = 0


F = TypeVar("F", bound=Callable[..., Any])


def unchecked(*what: Any) -> Callable[[F], F]:
    """``handles`` as a caller without a type checker meets it."""
    decorator: Any = handles
    marks: Callable[[F], F] = decorator(*what)
    return marks


def define(body: dict[str, Any], **keywords: Any) -> Any:
    """Define ``class Broken(Agent[Desk], name="broken")`` with the given members."""
    return types.new_class(
        "Broken", (Agent[Desk],), {"name": "broken", **keywords}, lambda space: space.update(body)
    )


def async_handler() -> Any:
    @unchecked(Opened)
    async def opened(self: Any, desk: Desk, ticket: Opened) -> Step[Desk]:
        return desk

    return opened


def async_generator_handler() -> Any:
    @unchecked(Opened)
    async def opened(self: Any, desk: Desk, ticket: Opened) -> AsyncIterator[Any]:
        yield desk

    return opened


def generator_handler() -> Any:
    @unchecked(Opened)
    def opened(self: Any, desk: Desk, ticket: Opened) -> Iterator[Any]:
        yield desk

    return opened


def lone_handler() -> Any:
    @unchecked(Opened)
    def opened(self: Any, desk: Desk) -> Step[Desk]:
        return desk

    return opened


def crowded_handler() -> Any:
    @unchecked(Opened)
    def opened(self: Any, desk: Desk, ticket: Opened, ctx: Context, more: int) -> Step[Desk]:
        return desk

    return opened


def starred_handler() -> Any:
    @unchecked(Opened)
    def opened(self: Any, *args: Any) -> Step[Desk]:
        return None

    return opened


def keyword_handler() -> Any:
    @unchecked(Opened)
    def opened(self: Any, desk: Desk, ticket: Opened, *, ctx: Context) -> Step[Desk]:
        return desk

    return opened


def wrong_state() -> Any:
    @unchecked(Opened)
    def opened(self: Any, desk: Other, ticket: Opened) -> Step[Other]:
        return desk

    return opened


def wrong_payload() -> Any:
    @unchecked(Opened)
    def opened(self: Any, desk: Desk, ticket: Closed) -> Step[Desk]:
        return desk

    return opened


def payload_for_a_pattern() -> Any:
    @unchecked("ticket.*")
    def opened(self: Any, desk: Desk, ticket: Opened) -> Step[Desk]:
        return desk

    return opened


def wrong_context() -> Any:
    @unchecked(Opened)
    def opened(self: Any, desk: Desk, ticket: Opened, ctx: int) -> Step[Desk]:
        return desk

    return opened


def swapped() -> Any:
    @unchecked(Opened)
    def opened(self: Any, ticket: Opened, desk: Desk) -> Step[Desk]:
        return desk

    return opened


def returns_text() -> Any:
    @unchecked(Opened)
    def opened(self: Any, desk: Desk, ticket: Opened) -> str:
        return "no"

    return opened


def returns_another_state() -> Any:
    @unchecked(Opened)
    def opened(self: Any, desk: Desk, ticket: Opened) -> Other | None:
        return None

    return opened


def static_handler() -> Any:
    @unchecked(Opened)
    def opened(desk: Desk, ticket: Opened, ctx: Context) -> Step[Desk]:
        return desk

    return staticmethod(opened)


def bad_pattern() -> Any:
    @unchecked("ticket..opened")
    def opened(self: Any, desk: Desk, signal: Signal) -> Step[Desk]:
        return desk

    return opened


def untyped_payload() -> Any:
    @unchecked(Untyped)
    def opened(self: Any, desk: Desk, ticket: Untyped) -> Step[Desk]:
        return desk

    return opened


@pytest.mark.parametrize(
    ("handler", "told"),
    [
        (async_handler, "async def.*@effect"),
        (async_generator_handler, "async def"),
        (generator_handler, "generator; return the directives"),
        (lone_handler, r"takes \(self, desk\); write \(self, state, payload\)"),
        (crowded_handler, r"takes \(self, desk, ticket, ctx, more\)"),
        (starred_handler, r"takes \*args"),
        (keyword_handler, r"takes \(self, desk, ticket, ctx\); write \(self, state, payload\) or"),
        (wrong_state, "'desk' is annotated Other; it is given a Desk"),
        (wrong_payload, "'ticket' is annotated Closed; it is given a Opened"),
        (payload_for_a_pattern, "'ticket' is annotated Opened; it is given a Signal"),
        (wrong_context, "'ctx' is annotated int; it is given a Context"),
        (swapped, "'ticket' is annotated Opened; it is given a Desk"),
        (returns_text, r"annotated to return str; it returns Step\[Desk\]"),
        (returns_another_state, "annotated to return Other"),
        (static_handler, "must be a plain method"),
        (bad_pattern, "'ticket..opened'"),
        (untyped_payload, "Untyped, which names no signal type"),
    ],
)
def test_a_wrong_handler_is_refused_by_class_name_and_fix(handler: Callable[[], Any], told: str) -> None:
    with pytest.raises(BadDefinition, match=rf"^Broken\.opened\(\) .*{told}"):
        define({"opened": handler()})


def test_two_handlers_of_one_pattern_are_refused() -> None:
    with pytest.raises(BadDefinition, match=r"Broken: one\(\) and two\(\) both handle 'ticket.opened'"):

        class Broken(Agent[Desk], name="broken"):
            @handles(Opened)
            def one(self, desk: Desk, ticket: Opened) -> Step[Desk]:
                return desk

            @handles("ticket.opened")
            def two(self, desk: Desk, signal: Signal) -> Step[Desk]:
                return desk


def test_two_spellings_of_one_pattern_are_one_pattern() -> None:
    with pytest.raises(BadDefinition, match="both handle"):

        class Broken(Agent[Desk], name="broken"):
            @handles("a.**.*")
            def one(self, desk: Desk, signal: Signal) -> Step[Desk]:
                return desk

            @handles("a.*.**")
            def two(self, desk: Desk, signal: Signal) -> Step[Desk]:
                return desk


def test_two_methods_of_one_name_are_refused() -> None:
    with pytest.raises(BadDefinition, match=r"Broken: two methods are named opened\(\)"):

        class Broken(Agent[Desk], name="broken"):
            @handles(Opened)
            def opened(self, desk: Desk, ticket: Opened) -> Step[Desk]:  # pyright: ignore[reportRedeclaration]
                return desk

            @handles(Closed)  # type: ignore[no-redef]
            def opened(self, desk: Desk, ticket: Closed) -> Step[Desk]:  # noqa: F811
                return desk


@pytest.mark.parametrize("what", [None, 5, dict, State, Opened(subject="x"), ["ticket.*"]])
def test_handles_takes_payload_classes_and_patterns_only(what: Any) -> None:
    with pytest.raises(BadDefinition, match="give a Payload class"):
        unchecked(what)


def test_handles_needs_something() -> None:
    with pytest.raises(BadDefinition, match="say what it handles"):
        unchecked()


@pytest.mark.parametrize(
    ("keywords", "told"),
    [
        ({"name": ""}, "Broken: name '' is not usable"),
        ({"name": "a b"}, "name 'a b'"),
        ({"name": "{x}"}, "name '{x}'"),
        ({"name": "a\nb"}, "name"),
        ({"name": 5}, "name of type int"),
        ({"aliases": ("ok", "not ok")}, "aliases 'not ok'"),
        ({"aliases": ("broken",)}, "one name twice"),
        ({"aliases": ("a", "a")}, "one name twice"),
        ({"aliases": "old"}, "aliases='old' must be a tuple"),
        ({"on_error": "retry"}, "on_error='retry'"),
        ({"nmae": "x"}, "unknown keyword 'nmae'"),
    ],
)
def test_a_wrong_class_keyword_is_refused(keywords: dict[str, Any], told: str) -> None:
    with pytest.raises(BadDefinition, match=told):
        define({}, **keywords)


def test_a_class_without_a_name_is_refused() -> None:
    with pytest.raises(
        BadDefinition, match=r'Nameless has no name: write class Nameless\(..., name="nameless"\)'
    ):

        class Nameless(Agent[Desk]):
            pass


def test_a_class_without_a_state_is_refused() -> None:
    with pytest.raises(BadDefinition, match="Stateless has no state type"):

        class Stateless(Agent, name="stateless"):  # type: ignore[type-arg]  # pyright: ignore[reportMissingTypeArgument]
            pass


@pytest.mark.parametrize("state", [int, dict, Opened, State])
def test_a_state_that_is_no_state_class_is_refused(state: Any) -> None:
    with pytest.raises(BadDefinition, match="takes a State class of yours"):
        types.new_class("Broken", (Agent[state],), {"name": "broken"})


@pytest.mark.parametrize("member", ["__init__", "__new__"])
def test_an_agent_object_holds_nothing(member: str) -> None:
    with pytest.raises(BadDefinition, match="keep it in the State"):
        define({member: print})


def test_setting_an_attribute_in_a_handler_is_refused() -> None:
    class Keeper(Agent[Desk], name="keeper"):
        @handles(Opened)
        def opened(self, desk: Desk, ticket: Opened) -> Step[Desk]:
            self.last = ticket  # pyright: ignore[reportUninitializedInstanceVariable, reportAttributeAccessIssue]
            return desk

    with pytest.raises(ImpureHandler, match=r"Keeper\.last was set"):
        Keeper.cmd(Desk(), Opened())


class Support(Agent[Desk], name="support", aliases=("helpdesk",)):
    @handles(Opened)
    def opened(self, desk: Desk, ticket: Opened, ctx: Context) -> Step[Desk]:
        return desk.evolve(open=desk.open + 1)

    @handles("ticket.**")
    def rest(self, desk: Desk, signal: Signal) -> Step[Desk]:
        return desk.evolve(open=-1)


def test_the_definition_holds_what_the_runtime_needs() -> None:
    definition = Support.definition

    assert (definition.name, definition.aliases, definition.state_type) == ("support", ("helpdesk",), Desk)
    assert [handler.pattern.text for handler in definition.handlers] == ["ticket.opened", "ticket.**"]
    assert definition.on_error == "crash"
    assert definition.schema == 1


def test_handlers_are_inherited_and_the_nearest_class_wins() -> None:
    class Loud(Support, name="loud"):
        @handles(Opened)
        def shouted(self, desk: Desk, ticket: Opened) -> Step[Desk]:
            return desk.evolve(open=100)

    assert Loud.cmd(Desk(), Opened())[0].open == 100
    assert Loud.cmd(Desk(), Closed())[0].open == -1
    assert Support.cmd(Desk(), Opened())[0].open == 1


def test_an_overriding_handler_replaces_the_inherited_one() -> None:
    class Quiet(Support, name="quiet"):
        @handles(Opened)
        def opened(self, desk: Desk, ticket: Opened, ctx: Context) -> Step[Desk]:
            return desk.evolve(open=7)

    assert Quiet.cmd(Desk(), Opened())[0].open == 7


def test_a_member_that_hides_a_handler_is_refused() -> None:
    with pytest.raises(BadDefinition, match=r"Silent\.opened hides the handler Support\.opened"):

        class Silent(Support, name="silent"):
            def opened(self, desk: Desk, ticket: Opened, ctx: Context) -> Step[Desk]:
                return desk


S = TypeVar("S", bound=State)


def test_a_generic_base_of_handlers_needs_no_name() -> None:
    class Base(Agent[S], Generic[S]):
        @handles("ping")
        def ping(self, state: S, signal: Signal) -> Step[S]:
            return Emit("pong", to="caller")

    class Concrete(Base[Desk], name="concrete"):
        pass

    assert Concrete.cmd(Desk(), Signal.of("ping")) == (Desk(), [Emit("pong", to="caller")])


def test_an_abstract_base_with_a_state_needs_no_name() -> None:
    class Base(Agent[Desk], abstract=True):
        @handles("ping")
        def ping(self, state: Desk, signal: Signal) -> Step[Desk]:
            return state.evolve(open=5)

    class Concrete(Base, name="concrete"):
        pass

    assert Concrete.cmd(Desk(), Signal.of("ping"))[0].open == 5
    with pytest.raises(BadDefinition, match="Base is no agent type: it has no name"):
        Base.child("x")


def test_a_plain_mixin_brings_handlers() -> None:
    class Pings:
        @handles("ping")
        def ping(self, state: Desk, signal: Signal) -> Step[Desk]:
            return state.evolve(open=9)

    class Mixed(Pings, Agent[Desk], name="mixed"):
        pass

    assert Mixed.cmd(Desk(), Signal.of("ping"))[0].open == 9


def test_one_handler_may_take_several_payloads() -> None:
    class Both(Agent[Desk], name="both"):
        @handles(Opened, Closed)
        def any_of(self, desk: Desk, ticket: Opened | Closed) -> Step[Desk]:
            return desk.evolve(open=1 if isinstance(ticket, Opened) else 2)

    assert Both.cmd(Desk(), Opened())[0].open == 1
    assert Both.cmd(Desk(), Closed())[0].open == 2


def test_annotations_that_only_checkers_can_read_are_let_pass() -> None:
    class Lenient(Agent[Desk], name="lenient"):
        @unchecked("x")
        def any_of(self, desk: Desk, signal: OnlyForCheckers) -> Step[Desk]:
            return desk

    assert Lenient.definition.handlers[0].name == "any_of"


def test_unannotated_handlers_are_let_pass() -> None:
    def opened(self, desk, ticket):  # type: ignore[no-untyped-def]  # pyright: ignore
        return desk.evolve(open=3)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

    member: Any = opened  # pyright: ignore[reportUnknownVariableType]
    assert define({"opened": unchecked(Opened)(member)}).cmd(Desk(), Opened())[0].open == 3


def test_on_error_is_inherited() -> None:
    class Patient(Agent[Desk], name="patient", on_error="dead_letter"):
        pass

    class Heir(Patient, name="heir"):
        pass

    assert Heir.definition.on_error == "dead_letter"


def with_step(step: int) -> Any:
    source = f"""
class Made(Agent[Desk], name="made"):
    @handles(Opened)
    def opened(self, desk, ticket):
        return desk.evolve(open=desk.open + {step})
"""
    space: dict[str, Any] = {
        "Agent": Agent,
        "Desk": Desk,
        "handles": handles,
        "Opened": Opened,
        "__name__": "made",
    }
    exec(source, space)
    return space["Made"]


def test_the_code_digest_tells_code_from_code() -> None:
    assert with_step(1).definition.code == with_step(1).definition.code
    assert with_step(1).definition.code != with_step(2).definition.code
