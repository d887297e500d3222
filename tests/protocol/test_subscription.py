"""Tag expressions and their hashes (C-15, C-41, S-31, E-64)."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.errors import SubscriptionError
from pocketmq.protocol.java import java_hash
from pocketmq.protocol.messages.subscription import SQL92, Subscription, SubscriptionData, tags_code
from support.strategies import tags


@pytest.mark.parametrize("expression", [None, "", "*"])
def test_nothing_and_a_star_mean_everything(expression):
    data = Subscription.parse("T", expression, 7)
    assert data == SubscriptionData(topic="T", sub_string="*", sub_version=7)
    assert data.subscribes_all
    assert data.matches(0)
    assert data.matches(12345)
    assert data.matches_tag(None)
    assert data.matches_tag("any")


def test_tags_are_split_trimmed_and_hashed():
    data = SubscriptionData.parse("T", " TagA ||TagB|| ", 7)
    assert data.tags_set == {"TagA", "TagB"}
    assert data.code_set == {2598919, 2598920}
    assert data.sub_string == " TagA ||TagB|| "
    assert not data.subscribes_all


def test_the_broker_compares_hashes_and_the_client_looks_again():  # C-41
    data = SubscriptionData.parse("T", "Aa", 0)
    assert data.matches(java_hash("Aa"))
    assert data.matches(java_hash("BB"))  # the same hash
    assert data.matches_tag("Aa")
    assert not data.matches_tag("BB")
    assert not data.matches(0)
    assert not data.matches_tag(None)
    assert not data.matches_tag("")


def test_the_hash_is_compared_as_int32():  # trap 14: the queue holds it sign-extended
    text = "polygenelubricants"
    data = SubscriptionData.parse("T", text, 0)
    assert tags_code(text) == -(2**31)
    assert data.matches(-(2**31))
    assert data.matches(2**31)


def test_an_unknown_hash_matches():  # B-73
    assert SubscriptionData.parse("T", "TagA", 0).matches(None)


@pytest.mark.parametrize("expression", ["||", "||||"])
def test_an_expression_of_separators_alone_is_refused(expression):  # B-55
    with pytest.raises(SubscriptionError, match="names no tag") as caught:
        SubscriptionData.parse("T", expression, 0)
    assert caught.value.code == 23


@pytest.mark.parametrize("expression", [" ", "|| ", " || ", " ||||"])
def test_blanks_are_a_subscription_to_no_tag_as_in_java(expression):  # B-55
    data = SubscriptionData.parse("T", expression, 0)
    assert (data.tags_set, data.sub_string) == (frozenset(), expression)
    assert not data.matches(tags_code("TagA"))
    assert not data.matches(0)
    with pytest.raises(SubscriptionError, match="names no tag"):
        SubscriptionData.parse("T", expression, 0, refuse_blanks=True)


def test_sql_is_kept_and_left_to_others():
    data = SubscriptionData.parse("T", "a > 5", 0, expression_type=SQL92)
    assert (data.sub_string, data.expression_type) == ("a > 5", "SQL92")
    assert data.matches(1)
    assert data.matches_tag(None)
    with pytest.raises(SubscriptionError):
        SubscriptionData.parse("T", "", 0, expression_type=SQL92)
    with pytest.raises(SubscriptionError, match="'XPATH'"):
        SubscriptionData.parse("T", "a", 0, expression_type="XPATH")


@given(st.lists(tags, min_size=1), st.none() | tags)
def test_what_the_client_wants_the_broker_lets_through(wanted, tag):
    data = SubscriptionData.parse("T", " || ".join(wanted), 0)
    assert data.matches_tag(tag) == (tag in wanted)
    if data.matches_tag(tag):
        assert data.matches(tags_code(tag))


@pytest.mark.parametrize(
    ("tag", "code"), [(None, 0), ("", 0), ("TagA", 2598919), ("TagC", 2598921), ("a b", 94307)]
)
def test_the_queue_holds_the_hash_of_the_whole_tag_string(tag, code):  # S-31
    assert tags_code(tag) == code


def test_a_long_tag_hashes_too():
    assert tags_code("a" * 1000) == java_hash("a" * 1000)


def test_the_wire_form_is_rocketmqs():  # E-64
    data = SubscriptionData.parse("T", "TagA", 5)
    assert msgspec.json.encode(data, order="sorted") == (
        b'{"classFilterMode":false,"codeSet":[2598919],"expressionType":"TAG","subString":"TagA",'
        b'"subVersion":5,"tagsSet":["TagA"],"topic":"T"}'
    )


def test_gos_hashes_as_strings_and_nodes_missing_type_are_read():  # E-64
    text = (
        b'{"codeSet":["2598919"],"subString":"TagA","subVersion":5,"tagsSet":["TagA"],"topic":"T"}'
    )
    read = msgspec.json.decode(text, type=SubscriptionData, strict=False)
    assert read == SubscriptionData.parse("T", "TagA", 5)


@pytest.mark.parametrize(
    ("kind", "says"), [("XPATH", "type 'XPATH' is unknown"), (SQL92, "SQL92 needs")]
)
def test_what_was_refused_is_named_as_it_was_written(kind: str, says: str) -> None:
    with pytest.raises(SubscriptionError, match=says) as caught:
        SubscriptionData.parse("T", " \t", 0, expression_type=kind, refuse_blanks=True)
    assert "' \\t'" in str(caught.value)


def test_a_subscription_without_a_version_is_older_than_any() -> None:
    assert msgspec.json.decode(b'{"topic":"T"}', type=SubscriptionData).sub_version == 0
