//! Where a waiting thread listens for releases.

use std::sync::Arc;

use crate::base::call_budget::CallBudget;
use crate::engine::parts::Part;
use crate::request::Prepared;
use crate::subscriber::Listener;

/// Where this thread listens for releases.
pub(super) struct Listeners<'a> {
    budget: &'a CallBudget<'a>,
    list: Vec<(&'a Part, Listener)>,
}

impl<'a> Listeners<'a> {
    pub(super) fn new(budget: &'a CallBudget<'a>) -> Self {
        Self {
            budget,
            list: Vec::new(),
        }
    }

    /// Listens for this part if its channel is subscribed already. With a subscription before the
    /// first request, no second request is needed after subscribing.
    pub(super) fn listen_if_live(&mut self, part: &'a Part) {
        let subscriber = &part.core.subscriber;
        let listener = subscriber.listen_if_live(&part.key, None, || self.budget.unparker());
        self.list.extend(listener.map(|listener| (part, listener)));
    }

    /// Listens for these parts, and for no others. Returns how many of their channels are
    /// subscribed.
    pub(super) fn listen(&mut self, parts: &[&'a Part]) -> usize {
        let is_wanted = |part: &Part| parts.iter().any(|wanted| std::ptr::eq(*wanted, part));
        self.list.retain(|(part, listener)| {
            is_wanted(part) && part.core.subscriber.is_in_place(listener, &part.key)
        });
        for part in parts {
            if !self
                .list
                .iter()
                .any(|(listened, _)| std::ptr::eq(*listened, *part))
            {
                let (unparker, left) = (self.budget.unparker(), self.budget.wait_left());
                let listener = part.core.subscriber.listen(&part.key, None, unparker, left);
                self.list.push((part, listener));
            }
        }
        let live = self.list.iter().filter(|(_, listener)| listener.is_live());
        live.count()
    }

    /// Lets the subscriber thread send this request when a message about the part arrives.
    pub(super) fn prepare(&self, part: &Part, request: &Arc<Prepared>) {
        let mut listened = self.list.iter();
        if let Some((_, listener)) = listened.find(|(listened, _)| std::ptr::eq(*listened, part)) {
            listener.prepare(Arc::clone(request));
        }
    }

    pub(super) fn clear(&mut self) {
        self.list.clear();
    }
}
