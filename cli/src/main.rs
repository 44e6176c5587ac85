//! The command `leasehold`.

fn main() -> std::process::ExitCode {
    leasehold::command()
}
