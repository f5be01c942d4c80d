//! Lists that are read page by page.

use serde_json::Value;

use super::{Code, RequestError};
use crate::wire::ItemList;

const LIMIT_MAX: usize = 100;
const LIMIT_DEFAULT: usize = 20;

/// The requested part of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Most entries, 1 to 100.
    pub limit: usize,
    /// True if the oldest entry comes first.
    pub ascending: bool,
    /// Id of the entry before the first wanted one.
    pub after: Option<String>,
}

impl Page {
    /// Reads the parameters of a query; others are ignored.
    ///
    /// # Errors
    /// A value that makes no sense.
    pub fn of_query(query: &[(String, String)]) -> Result<Self, RequestError> {
        let mut page = Self {
            limit: LIMIT_DEFAULT,
            ascending: false,
            after: None,
        };
        for (name, value) in query {
            match name.as_str() {
                "limit" => page.limit = limit(value)?,
                "order" => page.ascending = ascending(value)?,
                "after" => page.after = Some(value.clone()),
                _ => {}
            }
        }
        Ok(page)
    }

    /// This part of a list of items, each of which has an id.
    ///
    /// # Errors
    /// If there is no item to come after.
    pub fn of_items(&self, mut items: Vec<Value>) -> Result<ItemList, RequestError> {
        if !self.ascending {
            items.reverse();
        }
        if let Some(after) = &self.after {
            let place = items.iter().position(|item| item["id"] == **after);
            let place = place.ok_or_else(|| {
                RequestError::invalid("after", "`after` is the id of no item of this list.")
            })?;
            items.drain(..=place);
        }
        let has_more = items.len() > self.limit;
        items.truncate(self.limit);
        let id =
            |item: Option<&Value>| item.and_then(|item| item["id"].as_str()).map(str::to_owned);
        Ok(ItemList {
            object: "list",
            first_id: id(items.first()),
            last_id: id(items.last()),
            data: items,
            has_more,
        })
    }
}

fn limit(text: &str) -> Result<usize, RequestError> {
    match text.parse() {
        Ok(limit) if (1..=LIMIT_MAX).contains(&limit) => Ok(limit),
        _ => Err(RequestError::of(
            Code::InvalidValue,
            "limit",
            format!("`limit` must be a number from 1 to {LIMIT_MAX}."),
        )),
    }
}

fn ascending(text: &str) -> Result<bool, RequestError> {
    match text {
        "asc" => Ok(true),
        "desc" => Ok(false),
        _ => Err(RequestError::invalid(
            "order",
            "`order` must be `asc` or `desc`.",
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn page(query: &[(&str, &str)]) -> Result<ItemList, RequestError> {
        let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        let query: Vec<_> = query.iter().map(owned).collect();
        let items = (0..30).map(|n| json!({"id": format!("i{n}")})).collect();
        Page::of_query(&query)?.of_items(items)
    }

    fn ends(list: &ItemList) -> (usize, Option<&str>, Option<&str>, bool) {
        let (first, last) = (list.first_id.as_deref(), list.last_id.as_deref());
        (list.data.len(), first, last, list.has_more)
    }

    #[test]
    fn pages_follow_each_other_in_both_directions() {
        let list = page(&[]).expect("a page");
        assert_eq!(ends(&list), (20, Some("i29"), Some("i10"), true));
        let list = page(&[("after", "i10"), ("include[]", "x")]).expect("a page");
        assert_eq!(ends(&list), (10, Some("i9"), Some("i0"), false));
        let list = page(&[("order", "asc"), ("limit", "2"), ("after", "i3")]).expect("a page");
        assert_eq!(ends(&list), (2, Some("i4"), Some("i5"), true));
        let list = page(&[("after", "i0")]).expect("a page");
        assert_eq!(ends(&list), (0, None, None, false));
        let list = page(&[("limit", "30")]).expect("a page");
        assert!(!list.has_more);
    }

    #[test]
    fn values_that_make_no_sense_are_named() {
        for (name, value) in [
            ("limit", "0"),
            ("limit", "101"),
            ("limit", "x"),
            ("order", "up"),
            ("after", "i30"),
        ] {
            let refusal = page(&[(name, value)]).expect_err(value);
            assert_eq!(refusal.param.as_deref(), Some(name));
        }
    }
}
