//! Methods that call the method of the same name of a field.

/// Writes methods that call those of the same names of a field, or of the value itself.
macro_rules! forward {
    (to $field:tt: $(
        $(#[$attribute:meta])*
        $visibility:vis fn $name:ident(&$this:ident $(, $argument:ident: $type:ty)*) -> $result:ty;
    )+) => {
        $($(#[$attribute])*
        $visibility fn $name(&$this $(, $argument: $type)*) -> $result {
            $this.$field.$name($($argument),*)
        })+
    };
    ($(fn $name:ident(&$this:ident $(, $argument:ident: $type:ty)*) -> $result:ty;)+) => {
        $(fn $name(&$this $(, $argument: $type)*) -> $result {
            $this.$name($($argument),*)
        })+
    };
}

pub(super) use forward;
